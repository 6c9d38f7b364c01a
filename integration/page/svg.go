// Package page is what pages of measured results are made of: tables, targets, plots, and where it was
// measured. Those of the benchmark and of the faults are.
package page

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Plot is a picture of results: lines over numbers, or bars over names.
type Plot struct {
	File  string   `json:"file"` // without .svg
	Title string   `json:"title"`
	X     string   `json:"x"`
	Y     string   `json:"y"`
	LogX  bool     `json:"logx,omitempty"`
	Bars  []string `json:"bars,omitempty"` // names of groups of bars: then the x of a point is their index
	Lines []Line   `json:"lines"`
}

// Line is one of those who are compared.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// Add adds a point, if it could be measured.
func (l *Line) Add(x, y float64) {
	if !math.IsNaN(y) && !math.IsInf(y, 0) {
		l.Points = append(l.Points, [2]float64{x, y})
	}
}

// The picture, in pixels.
const (
	wide, high                               = 760, 400
	leftEdge, rightEdge, topEdge, bottomEdge = 70, 190, 40, 60
)

// colours can be told apart by those who see no red or no green (Okabe and Ito).
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"}

// SVG is the picture.
func (p Plot) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif"`+
		` font-size="12">`+"\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", wide, high)
	text := func(x, y float64, anchor, more, s string) {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y, anchor, more,
			escaped(s))
	}
	stroke := func(x1, y1, x2, y2 float64, colour string) {
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1,
			x2, y2, colour)
	}
	x, y := p.scales()
	right, bottom := float64(wide-rightEdge), float64(high-bottomEdge)
	text((leftEdge+right)/2, topEdge/2+4, "middle", ` font-size="15"`, p.Title)
	text((leftEdge+right)/2, high-12, "middle", "", p.X)
	text(18, (topEdge+bottom)/2, "middle", fmt.Sprintf(` transform="rotate(-90 18 %.1f)"`,
		(topEdge+bottom)/2), p.Y)
	for _, v := range y.marks() {
		stroke(leftEdge, y.at(v), right, y.at(v), "#ddd")
		text(leftEdge-6, y.at(v)+4, "end", "", number(v))
	}
	if p.Bars == nil {
		for _, v := range x.marks() {
			stroke(x.at(v), bottom, x.at(v), bottom+5, "#333")
			text(x.at(v), bottom+18, "middle", "", number(v))
		}
	}
	for i, name := range p.Bars {
		text(x.at(float64(i)+0.5), bottom+18, "middle", "", name)
	}
	stroke(leftEdge, bottom, right, bottom, "#333")
	for i, l := range p.Lines {
		colour := colours[i%len(colours)]
		if p.Bars != nil {
			p.bars(&b, i, x, y, colour)
		} else {
			var path []string
			for _, at := range l.Points {
				path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(at[0]), y.at(at[1])))
			}
			fmt.Fprintf(&b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
				strings.Join(path, " "), colour)
		}
		level := float64(topEdge + 10 + 20*i)
		fmt.Fprintf(&b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", right+14,
			level-10, colour)
		text(right+32, level, "start", "", l.Name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// bars are those of one line, beside those of the others in each group.
func (p Plot) bars(b *strings.Builder, i int, x, y scale, colour string) {
	each := 0.8 / float64(len(p.Lines))
	for _, at := range p.Lines[i].Points {
		left, top := x.at(at[0]+0.1+each*float64(i)), y.at(at[1])
		fmt.Fprintf(b,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\">"+
				"<title>%s</title></rect>\n",
			left, top, x.at(each)-x.at(0), y.at(0)-top, colour, number(at[1]))
	}
}

// scale puts numbers on pixels.
type scale struct {
	low, high float64 // numbers; logarithms, if log
	from, to  float64 // pixels
	log       bool
}

// scales are those of both axes. The one of y begins at 0.
func (p Plot) scales() (x, y scale) {
	x = scale{math.Inf(1), math.Inf(-1), leftEdge, wide - rightEdge, p.LogX}
	y = scale{0, 0, high - bottomEdge, topEdge, false}
	for _, l := range p.Lines {
		for _, at := range l.Points {
			x.low, x.high = min(x.low, at[0]), max(x.high, at[0])
			y.high = max(y.high, at[1])
		}
	}
	if x.log {
		x.low, x.high = math.Log10(x.low), math.Log10(x.high)
	}
	if p.Bars != nil {
		x.low, x.high = 0, float64(len(p.Bars))
	}
	if !(x.high > x.low) { // one point, or none
		x.low, x.high = 0, 1
	}
	if y.high == 0 {
		y.high = 1
	}
	return x, y
}

func (s scale) at(v float64) float64 {
	if s.log {
		v = math.Log10(v)
	}
	return s.from + (v-s.low)/(s.high-s.low)*(s.to-s.from)
}

// marks are round numbers on a scale.
func (s scale) marks() (all []float64) {
	if s.log {
		for decade := math.Floor(s.low); decade <= s.high; decade++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, decade); math.Log10(v) >= s.low-1e-9 &&
					math.Log10(v) <= s.high+1e-9 {
					all = append(all, v)
				}
			}
		}
		if len(all) > 10 { // powers of ten are enough
			all = slices.DeleteFunc(all,
				func(v float64) bool { return math.Mod(math.Round(math.Log10(v)*1e6), 1e6) != 0 })
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(s.high-s.low)))
	for (s.high-s.low)/step < 4 {
		step /= 2
	}
	for v := math.Ceil(s.low/step) * step; v <= s.high*(1+1e-9); v += step {
		all = append(all, v)
	}
	return all
}

// number is short: 1200 is 1.2k.
func number(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v/1000, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v+0, 'g', 3, 64) // of -0 that makes 0
}

func escaped(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s))
	return b.String()
}
