package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// conforms says where values are not what a JSON Schema allows, and what it wants there. It knows the
// keywords that the schema of the chart uses, and refuses a schema with another one.
func conforms(values any, text []byte) error {
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return err
	}
	definitions, _ := root["definitions"].(map[string]any)
	return schema{definitions}.check("", values, root)
}

type schema struct{ definitions map[string]any }

func (s schema) check(at string, v any, rules map[string]any) error {
	var wrong []error
	for keyword, want := range rules {
		ok, err := s.rule(at, v, keyword, want, rules)
		if err != nil {
			wrong = append(wrong, err)
		} else if !ok {
			wrong = append(wrong, fmt.Errorf("at %q: %v is not allowed: %s %v", at, v, keyword, want))
		}
	}
	return errors.Join(wrong...)
}

// rule says whether a value keeps one rule. As JSON Schema has it, a rule about strings lets all else pass.
func (s schema) rule(at string, v any, keyword string, want any, rules map[string]any) (ok bool, err error) {
	table, _ := v.(map[string]any)
	list, _ := v.([]any)
	text, isText := v.(string)
	number, isNumber := v.(float64)
	switch keyword {
	case "$schema", "description", "definitions":
		return true, nil
	case "$ref":
		to, found := s.definitions[strings.TrimPrefix(want.(string), "#/definitions/")].(map[string]any)
		if !found {
			return false, fmt.Errorf("the schema has no %v", want)
		}
		return true, s.check(at, v, to)
	case "type":
		return is(v, want.(string)), nil
	case "enum":
		return slices.Contains(want.([]any), v), nil
	case "minimum":
		return !isNumber || number >= want.(float64), nil
	case "maximum":
		return !isNumber || number <= want.(float64), nil
	case "minLength":
		return !isText || float64(utf8.RuneCountInString(text)) >= want.(float64), nil
	case "maxLength":
		return !isText || float64(utf8.RuneCountInString(text)) <= want.(float64), nil
	case "pattern":
		return !isText || regexp.MustCompile(want.(string)).MatchString(text), nil
	case "not":
		return s.check(at, v, want.(map[string]any)) != nil, nil
	case "oneOf":
		n := 0
		for _, one := range want.([]any) {
			if s.check(at, v, one.(map[string]any)) == nil {
				n++
			}
		}
		return n == 1, nil
	case "items":
		for i, e := range list {
			err = errors.Join(err, s.check(fmt.Sprint(at, "/", i), e, want.(map[string]any)))
		}
		return true, err
	case "required":
		for _, name := range want.([]any) {
			if _, has := table[name.(string)]; table != nil && !has {
				return false, nil
			}
		}
		return true, nil
	case "minProperties":
		return table == nil || float64(len(table)) >= want.(float64), nil
	case "propertyNames":
		for name := range table {
			err = errors.Join(err, s.check(at+"/"+name, name, want.(map[string]any)))
		}
		return true, err
	case "properties", "additionalProperties":
		known, _ := rules["properties"].(map[string]any)
		for name, value := range table {
			rules, listed := known[name].(map[string]any)
			if listed != (keyword == "properties") {
				continue
			}
			if want == false {
				return false, fmt.Errorf("at %q: nothing is called %s", at, name)
			}
			if !listed {
				rules = want.(map[string]any)
			}
			err = errors.Join(err, s.check(at+"/"+name, value, rules))
		}
		return true, err
	}
	return false, fmt.Errorf("the schema has the keyword %s, which this test does not know", keyword)
}

// is says that a value has that type of JSON Schema.
func is(v any, kind string) bool {
	switch v := v.(type) {
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

// Each keyword is heeded, and one that is not known is no silence.
func TestSchemaIsHeeded(t *testing.T) {
	for rules, values := range map[string]struct{ right, wrong string }{
		`{"type": "integer"}`:                                      {`1`, `1.5`},
		`{"type": "string"}`:                                       {`"1"`, `1`},
		`{"type": "boolean"}`:                                      {`true`, `"yes"`},
		`{"type": "array"}`:                                        {`[]`, `{}`},
		`{"type": "object"}`:                                       {`{}`, `[]`},
		`{"enum": ["a", "b"]}`:                                     {`"b"`, `"c"`},
		`{"minimum": 1, "maximum": 2}`:                             {`2`, `3`},
		`{"minLength": 1, "maxLength": 2}`:                         {`"äö"`, `"abc"`},
		`{"minLength": 2}`:                                         {`"ab"`, `"ä"`},
		`{"minimum": 2}`:                                           {`2`, `1`},
		`{"pattern": "^a$"}`:                                       {`"a"`, `"b"`},
		`{"not": {"enum": ["a"]}}`:                                 {`"b"`, `"a"`},
		`{"oneOf": [{"minimum": 3}, {"maximum": 1}]}`:              {`1`, `2`},
		`{"oneOf": [{"minimum": 1}, {"maximum": 3}]}`:              {`9`, `2`},
		`{"items": {"minimum": 3}}`:                                {`[3]`, `[3, 1]`},
		`{"required": ["a"]}`:                                      {`{"a": 1}`, `{"b": 1}`},
		`{"minProperties": 1}`:                                     {`{"a": 1}`, `{}`},
		`{"propertyNames": {"maxLength": 1}}`:                      {`{"a": 1}`, `{"ab": 1}`},
		`{"properties": {"a": {"minimum": 1}}}`:                    {`{"a": 1, "b": 0}`, `{"a": 0}`},
		`{"additionalProperties": {"minimum": 1}}`:                 {`{"a": 1}`, `{"a": 0}`},
		`{"properties": {"a": {}}, "additionalProperties": false}`: {`{"a": 1}`, `{"b": 0}`},
		`{"properties": {"a": {"$ref": "#/definitions/x"}}, "definitions": {"x": {"minimum": 1}}}`: {
			`{"a": 1}`, `{"a": 0}`},
		`{"additionalProperties": {"$ref": "#/definitions/x"}}`: {`{}`, `{"a": 0}`},
		`{"items": {"const": 1}}`:                               {`[]`, `[1]`},
	} {
		for text, want := range map[string]bool{values.right: true, values.wrong: false} {
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			if err := conforms(v, []byte(rules)); (err == nil) != want {
				t.Errorf("%s by %s: %v", text, rules, err)
			}
		}
	}
}
