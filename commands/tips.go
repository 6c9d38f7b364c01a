package commands

// tips are what the upstream itself says of a command that concerns several
// nodes (Redis documentation, "Command tips"): to whom it is sent, and what is
// made of the replies.
type tips struct{ request, response string }

const (
	requestTip  = "request_policy:"
	responseTip = "response_policy:"
)

// policies make one reply of several by the tip response_policy. Without such a
// tip the replies are put together.
var policies = map[string]Merge{
	"":                mergeAny,
	"one_succeeded":   mergeOne,
	"all_succeeded":   mergeFirst,
	"agg_sum":         mergeSum,
	"agg_min":         mergeMin,
	"agg_max":         mergeMax,
	"agg_logical_and": mergeAnd,
	"agg_logical_or":  mergeOr,
	"special":         mergeFirst,
}

// applyTips routes a command that has no row. A policy that nobody knows yet
// leaves it to its keys.
func (c *Command) applyTips() {
	merge := policies[c.tips.response]
	switch c.tips.request {
	case "all_nodes", "all_shards":
		if merge == nil {
			merge = mergeFirst
		}
		c.Route, c.Merge = AllNodes, merge
	case "multi_shard":
		k := c.Keys
		if len(k) != 1 || k[0].Unknown || k[0].Incomplete || k[0].Keyword != "" || k[0].Counted || k[0].Last >= 0 || k[0].Limit > 1 {
			return
		}
		c.Route, c.Step, c.first = Split, max(k[0].Step, 1), k[0].Begin
		if c.Step == 1 {
			c.tail = -1 - k[0].Last // arguments behind the keys
		}
		if c.tips.response != "" {
			c.Merge = merge
		}
	}
}
