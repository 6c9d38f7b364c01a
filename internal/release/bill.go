package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// What follows are the parts of CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json) that a bill here has.
type (
	bill struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		URL        string     `json:"purl"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licenses   []licence  `json:"licenses,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	licence struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn,omitempty"`
	}
)

// bill says what is linked into a binary, as the binary itself does (`go version -m`).
func (r version) bill(path string, p platform) ([]byte, error) {
	built, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	program := component{
		Type: "application", Ref: "lockproxy", Name: "lockproxy", Version: r.version,
		URL:    "pkg:generic/lockproxy@" + r.version + "?arch=" + p.arch + "&os=" + p.os,
		Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sum)}}, Licenses: make([]licence, 1),
		Properties: []property{{"commit", r.commit}},
	}
	program.Licenses[0].License.ID = "Apache-2.0"
	b := bill{
		Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial:   uuid(sum[:16]), // the same binary has the same bill
		Metadata: metadata{r.time.Format(time.RFC3339), program},
	}
	b.add(component{Name: "std", Version: strings.TrimPrefix(built.GoVersion, "go")})
	for _, m := range built.Deps {
		b.add(library(m))
	}
	root := dependency{Ref: program.Ref}
	for _, c := range b.Components {
		root.On = append(root.On, c.Ref)
	}
	b.Dependencies = append([]dependency{root}, b.Dependencies...)
	made, err := json.MarshalIndent(b, "", "  ")
	return append(made, '\n'), err
}

// library is a module as it was linked.
func library(m *debug.Module) component {
	c := component{Name: m.Path, Version: m.Version, Properties: []property{{"go.sum", m.Sum}}}
	if m.Replace != nil {
		c = component{Name: m.Replace.Path, Version: m.Replace.Version,
			Properties: []property{{"go.sum", m.Replace.Sum}, {"replaces", m.Path}}}
	}
	return c
}

func (b *bill) add(c component) {
	c.Type, c.URL = "library", "pkg:golang/"+c.Name+"@"+c.Version
	c.Ref = c.URL
	b.Components = append(b.Components, c)
	b.Dependencies = append(b.Dependencies, dependency{Ref: c.Ref})
}

// uuid makes 16 bytes a UUID of version 8, which is for whatever its maker likes (RFC 9562).
func uuid(of []byte) string {
	u := append([]byte(nil), of...)
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
