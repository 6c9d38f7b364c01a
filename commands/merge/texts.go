package merge

import (
	"fmt"
	"strings"

	"lockproxy/internal/resp"
)

// Texts puts reports for people one below the other, without repeating equal ones. A node with nothing to
// report, which some say as an error, is left out.
func Texts(proto int, replies [][]byte) []byte {
	var texts []string
	for _, reply := range replies {
		if v, _, err := resp.Parse(reply); err == nil && v.Err() == "" {
			texts = append(texts, v.Text())
		}
	}
	switch {
	case len(replies) == 1 || len(texts) == 0:
		return One(proto, replies)
	case len(texts) == 1 || allEqual(texts):
		return appendText(proto, texts[0])
	}
	var b strings.Builder
	for i, text := range texts {
		fmt.Fprintf(&b, "--- master %d of %d ---\n%s", i+1, len(texts), text)
		if !strings.HasSuffix(text, "\n") {
			b.WriteByte('\n')
		}
	}
	return appendText(proto, b.String())
}

func appendText(proto int, text string) []byte { return resp.AppendVerbatim(nil, proto, "txt", text) }

func allEqual(texts []string) bool {
	for _, text := range texts[1:] {
		if text != texts[0] {
			return false
		}
	}
	return true
}
