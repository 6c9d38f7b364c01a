package main

import "lockproxy/integration/page"

// What this page shares with others.
type (
	plot    = page.Plot
	line    = page.Line
	table   = page.Table
	verdict = page.Verdict
	spread  = page.Spread
)

var (
	median   = page.Median
	spreadOf = page.SpreadOf
	atMost   = page.AtMost
	atLeast  = page.AtLeast
)
