package commands

import "lockproxy/commands/merge"

// Tips are what the upstream says of a command (Redis documentation, "Command tips"). If it concerns several
// nodes, request_policy says to which it is sent, and response_policy how the replies become one.

// policies make one reply of several, by the tip response_policy. Without that tip the replies are joined.
var policies = map[string]Merge{
	"":                merge.Any,
	"one_succeeded":   merge.One,
	"all_succeeded":   merge.First,
	"agg_sum":         merge.Sum,
	"agg_min":         merge.Min,
	"agg_max":         merge.Max,
	"agg_logical_and": merge.And,
	"agg_logical_or":  merge.Or,
	"special":         merge.First,
}

// applyTips routes c, a command that has no row. With a policy that is not known it goes by its keys.
// Commands of modules, and new ones of Redis, are routed so without a word about them here. Keys that are not
// simply a range to the end of the command cannot be cut.
func applyTips(c *Command) {
	response := c.tips["response_policy"]
	policy := policies[response]
	if response == "" || response == "special" {
		c.Flags |= Lists
	}
	switch c.tips["request_policy"] {
	case "all_nodes", "all_shards":
		if policy == nil {
			policy = merge.First
		}
		c.Route, c.Merge = AllNodes, policy
	case "multi_shard":
		k := c.Keys
		if len(k) != 1 || k[0].Unknown || k[0].Incomplete || k[0].Keyword != "" || k[0].Counted ||
			k[0].Last >= 0 || k[0].Limit > 1 {
			return
		}
		c.Route, c.Step, c.FirstKey = Split, max(k[0].Step, 1), k[0].Begin
		if c.Step == 1 {
			c.tail = -1 - k[0].Last // arguments behind the keys
		}
		if response != "" {
			c.Merge = policy
		}
	}
}
