package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v2"
)

// rendering is what the chart makes of some values: all manifests in one text, and the notes for who installs
// it.
type rendering struct{ manifests, notes string }

// render fills in the templates of the chart as Helm does, for a release called lockproxy. It knows no more
// of Helm than the chart uses, so that nobody has to compile Helm, which takes minutes. That it makes what
// Helm makes is seen by `make chart`, and noted for TestChartIsHelms. It is stricter: a value that is not
// there is an error, and not empty.
func render(given string) (rendering, error) {
	values, err := valuesOf(given)
	if err != nil {
		return rendering{}, err
	}
	var about struct {
		APIVersion  string `yaml:"apiVersion"`
		KubeVersion string `yaml:"kubeVersion"`
		AppVersion  string `yaml:"appVersion"`

		Name, Version, Description, Type string
	}
	text, err := os.ReadFile(chart + "/Chart.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &about)
	}
	if err != nil {
		return rendering{}, err
	}
	type release struct{ Name, Namespace, Service string }
	files, err := fill(map[string]any{"Values": values, "Chart": about,
		"Release": release{Name: "lockproxy", Namespace: "default", Service: "Helm"}})
	if err != nil {
		return rendering{}, err
	}
	var all rendering
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := strings.TrimSpace(files[name])
		if name == "NOTES.txt" {
			all.notes = files[name]
		} else if text != "" {
			all.manifests += "---\n# Source: lockproxy/templates/" + name + "\n" + text + "\n"
		}
	}
	return all, nil
}

// valuesOf are the values of the chart with those that are given in their place, as its schema allows them.
func valuesOf(given string) (map[string]any, error) {
	values, err := readValues(chart + "/values.yaml")
	if err != nil {
		return nil, err
	}
	var more any
	if err := yaml.Unmarshal([]byte(given), &more); err != nil {
		return nil, err
	}
	if more, ok := plain(more).(map[string]any); ok {
		override(values, more)
	}
	text, err := os.ReadFile(chart + "/values.schema.json")
	if err != nil {
		return nil, err
	}
	return values, conforms(values, text)
}

func readValues(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var values any
	err = yaml.Unmarshal(text, &values)
	return plain(values).(map[string]any), err
}

// plain is what was YAML as if it had been JSON: all numbers are of one type, and all keys are strings.
func plain(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := map[string]any{}
		for key, value := range v {
			m[fmt.Sprint(key)] = plain(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = plain(e)
		}
		return list
	case int:
		return float64(v)
	}
	return v
}

// override puts more into values: tables are put together, null takes a value away.
func override(values, more map[string]any) {
	for key, value := range more {
		was, table := values[key].(map[string]any)
		is, too := value.(map[string]any)
		switch {
		case table && too:
			override(was, is)
		case value == nil:
			delete(values, key)
		default:
			values[key] = value
		}
	}
}

// fill executes each template that is no part of others.
func fill(data any) (files map[string]string, err error) {
	all := template.New("").Option("missingkey=error")
	execute := func(name string, data any) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	all.Funcs(functions).Funcs(template.FuncMap{"include": execute})
	paths, err := filepath.Glob(chart + "/templates/*")
	if err == nil && len(paths) == 0 {
		err = errors.New("the chart has no templates")
	}
	for _, file := range paths {
		var text []byte
		if text, err = os.ReadFile(file); err != nil {
			break
		}
		if _, err = all.New(path.Base(file)).Parse(string(text)); err != nil {
			break
		}
	}
	files = map[string]string{}
	for _, file := range paths {
		name := path.Base(file)
		if err == nil && !strings.HasPrefix(name, "_") {
			files[name], err = execute(name, data)
		}
	}
	return files, err
}

// functions are those of Helm that the chart uses; a template with another one is not parsed.
var functions = template.FuncMap{
	"contains":   func(part, s string) bool { return strings.Contains(s, part) },
	"lower":      strings.ToLower,
	"quote":      func(s string) string { return fmt.Sprintf("%q", s) },
	"replace":    func(old, by, s string) string { return strings.ReplaceAll(s, old, by) },
	"regexMatch": regexp.MatchString,
	"sha256sum":  func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) },
	"trimSuffix": func(end, s string) string { return strings.TrimSuffix(s, end) },
	"trunc":      func(n int, s string) string { return s[:min(n, len(s))] },
	"fail":       func(why string) (string, error) { return "", errors.New(why) },
	"list":       func(all ...any) []any { return all },
	"nindent": func(n int, s string) string {
		line := "\n" + strings.Repeat(" ", n)
		return line + strings.ReplaceAll(s, "\n", line)
	},
	"default": func(other, given any) any {
		if full, _ := template.IsTrue(given); full {
			return given
		}
		return other
	},
	"omit": func(table map[string]any, names ...string) map[string]any {
		table = maps.Clone(table)
		for _, name := range names {
			delete(table, name)
		}
		return table
	},
	"toJson": func(v any) (string, error) {
		text, err := json.Marshal(v)
		return string(text), err
	},
	"toYaml": func(v any) (string, error) {
		text, err := json.Marshal(v) // which writes a whole number as one
		if err == nil {
			err = yaml.Unmarshal(text, &v)
		}
		if err == nil {
			text, err = yaml.Marshal(v)
		}
		return strings.TrimSuffix(string(text), "\n"), err
	},
}

// The renderer takes nothing that Helm would have to guess.
func TestRenderIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		"{{ .Values.replica }}": "replica", "{{ .Chart.Nmae }}": "Nmae", "{{ .Files }}": "Files",
		"{{ .Release.Revision }}": "Revision", `{{ include "nobody" . }}`: "nobody", `{{ fail "no" }}`: "no",
	} {
		data := map[string]any{"Values": map[string]any{}, "Chart": struct{ Name string }{},
			"Release": struct{ Name string }{}}
		all := template.New("t").Option("missingkey=error").Funcs(functions)
		all.Funcs(template.FuncMap{"include": func(name string, data any) (string, error) {
			return "", all.ExecuteTemplate(&bytes.Buffer{}, name, data)
		}})
		err := template.Must(all.Parse(text)).Execute(&bytes.Buffer{}, data)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
