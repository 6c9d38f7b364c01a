package main

import "math"

// standIn is the proxy that targets are of: predixy, and where that is not installed, twemproxy, which is
// slower, so that the limit is another one.
type standIn struct {
	name, told string
	scale      float64 // of a limit for predixy
}

// What twemproxy needs of CPU, in parts of predixy's: what a build of lockproxy needed of predixy's, divided
// by what it needed of twemproxy's.
const (
	likePredixy       = 1.
	setOfPredixy      = 0.99 / 0.82
	pipelineOfPredixy = 0.67 / 0.28
	valuesOfPredixy   = 2.4 / 1.51
)

// crowdOfPredixy is the same for a number of busy connections, and rateOfPredixy for throughput.
var (
	crowdOfPredixy = map[int]float64{300: 1.04 / 0.70, 1000: 1.67 / 1.32, 3000: 1.76 / 1.16,
		10000: 2.04 / 1.14}
	rateOfPredixy = map[int]float64{1000: 0.63 / 0.89, 10000: 0.58 / 0.91}
)

// yardstick is the one that is here. ofPredixy is twemproxy's figure in parts of predixy's.
func (y *yard) yardstick(ofPredixy float64) standIn {
	if y.predixy.addr == "" && y.twemproxy.addr != "" {
		return standIn{y.twemproxy.name, "twemproxy in predixy's place", 1 / ofPredixy}
	}
	return standIn{"predixy", "predixy", 1}
}

// limit is the limit for the one that is here.
func (s standIn) limit(ofPredixy float64) float64 { return math.Round(ofPredixy*s.scale*100) / 100 }
