//go:build race

package integration

// raceFactor is how much slower the race detector makes the program.
const raceFactor = 15
