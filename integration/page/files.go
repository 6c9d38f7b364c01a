package page

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files are those of a page, by its path: the page itself, and in a folder that has its name the results that
// it is made of and its pictures. Of "" there are none, and nothing is read or written.
//
//	docs/NAME.md
//	docs/NAME/results.json
//	docs/NAME/PLOT.svg
type Files string

func (f Files) Folder() string { return strings.TrimSuffix(string(f), filepath.Ext(string(f))) }

func (f Files) results() string { return filepath.Join(f.Folder(), "results.json") }

// Load reads the results that earlier runs have kept; where there are none, kept stays as it is.
func (f Files) Load(kept any) error {
	text, err := os.ReadFile(f.results())
	if f == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, json.Unmarshal(text, kept))
}

// Keep writes the results.
func (f Files) Keep(results any) error {
	if f == "" {
		return nil
	}
	text, err := json.MarshalIndent(results, "", "\t")
	return errors.Join(err, os.MkdirAll(f.Folder(), 0o755),
		os.WriteFile(f.results(), append(text, '\n'), 0o644))
}

// Print writes the page and its pictures.
func (f Files) Print(text string, plots []Plot) error {
	if f == "" {
		return nil
	}
	err := errors.Join(os.MkdirAll(f.Folder(), 0o755), os.WriteFile(string(f), []byte(text), 0o644))
	for _, p := range plots {
		picture := filepath.Join(f.Folder(), p.File+".svg")
		err = errors.Join(err, os.WriteFile(picture, []byte(p.SVG()), 0o644))
	}
	return err
}
