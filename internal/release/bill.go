package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// object is one of JSON. A bill has those parts of CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json) that
// stand below.
type object map[string]any

// bill says what is linked into a binary, as the binary itself does (`go version -m`). path is the binary.
// Nothing is taken from go.mod, which may name more than is linked.
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
	program := object{
		"type": "application", "bom-ref": "lockproxy", "name": "lockproxy", "version": r.version,
		"purl":       "pkg:generic/lockproxy@" + r.version + "?arch=" + p.arch + "&os=" + p.os,
		"hashes":     []object{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sum)}},
		"licenses":   []object{{"license": object{"id": "Apache-2.0"}}},
		"properties": []object{{"name": "commit", "value": r.commit}},
	}
	all := []object{library("std", strings.TrimPrefix(built.GoVersion, "go"))}
	// What was replaced is named as what it was replaced by: that is what has or has not a hole.
	for _, m := range built.Deps {
		if m.Replace != nil {
			all = append(all, library(m.Replace.Path, m.Replace.Version, "go.sum", m.Replace.Sum,
				"replaces", m.Path))
		} else {
			all = append(all, library(m.Path, m.Version, "go.sum", m.Sum))
		}
	}
	root := object{"ref": program["bom-ref"]}
	dependencies, refs := []object{root}, []any{}
	for _, c := range all {
		dependencies, refs = append(dependencies, object{"ref": c["bom-ref"]}), append(refs, c["bom-ref"])
	}
	root["dependsOn"] = refs
	made, err := json.MarshalIndent(object{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"serialNumber": uuid(sum[:16]), // the same binary has the same bill
		"metadata":     object{"timestamp": r.time.Format(time.RFC3339), "component": program},
		"components":   all, "dependencies": dependencies,
	}, "", "  ")
	return append(made, '\n'), err
}

// library is a module as it was linked; properties are names and values in turn.
func library(name, version string, properties ...string) object {
	ref := "pkg:golang/" + name + "@" + version
	c := object{"type": "library", "bom-ref": ref, "purl": ref, "name": name, "version": version}
	var pairs []object
	for pair := range slices.Chunk(properties, 2) {
		pairs = append(pairs, object{"name": pair[0], "value": pair[1]})
	}
	if pairs != nil {
		c["properties"] = pairs
	}
	return c
}

// uuid makes 16 bytes a UUID of version 8, which is for whatever its maker likes (RFC 9562).
func uuid(of []byte) string {
	u := append([]byte(nil), of...)
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
