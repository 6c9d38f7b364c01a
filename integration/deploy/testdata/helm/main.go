// helm judges the chart of docs/deploy with Helm's own code, and renders it, without a cluster:
//
//	go run . lint CHART [FILE...]      says what Helm finds wrong, and exits 1 if it finds anything
//	go run . template CHART [FILE...]  prints the manifests of a release called lockproxy
//	go run . notes CHART [FILE...]     prints what `helm install` tells afterwards
//
// The FILEs are values, and a later one wins; - is standard input.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

const namespace = "default"

func main() {
	if len(os.Args) < 3 {
		fail("usage: helm lint|template|notes CHART [FILE...]")
	}
	dir := os.Args[2]
	values := read(os.Args[3:])
	switch os.Args[1] {
	case "lint":
		judge(dir, values)
	case "template":
		printManifests(render(dir, values))
	case "notes":
		printNotes(render(dir, values))
	default:
		fail("there is no %s", os.Args[1])
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// read puts files of values together.
func read(files []string) map[string]any {
	all := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if file == "-" {
			text, err = io.ReadAll(os.Stdin)
		}
		if err != nil {
			fail("%v", err)
		}
		values, err := chartutil.ReadValues(text)
		if err != nil {
			fail("%s: %v", file, err)
		}
		all = chartutil.MergeTables(values.AsMap(), all)
	}
	return all
}

// judge is `helm lint --strict`.
func judge(dir string, values map[string]any) {
	found := lint.AllWithKubeVersion(dir, values, namespace, nil)
	for _, m := range found.Messages {
		fmt.Println(m)
	}
	if found.HighestSeverity >= support.WarningSev {
		os.Exit(1)
	}
}

// render returns the files of the chart's templates, filled in.
func render(dir string, values map[string]any) map[string]string {
	c, err := loader.Load(dir)
	if err != nil {
		fail("%v", err)
	}
	release := chartutil.ReleaseOptions{Name: "lockproxy", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		fail("%v", err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		fail("%v", err)
	}
	return files
}

func printManifests(files map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := strings.TrimSpace(files[name])
		if path.Ext(name) == ".yaml" && text != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", name, text)
		}
	}
}

func printNotes(files map[string]string) {
	for name, text := range files {
		if path.Base(name) == "NOTES.txt" {
			fmt.Print(text)
		}
	}
}
