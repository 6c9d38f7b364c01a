//go:build race

package rig

// RaceFactor is how much slower the race detector makes the program.
const RaceFactor = 15
