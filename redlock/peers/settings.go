package peers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lockproxy/internal/journal"
)

// Some settings say where a lock is kept: two proxies that have them otherwise give one lock to two clients,
// and neither sees anything wrong. So each message has digests of them, and who hears one compares:
//
//	announce, now and again --> heardQuestion --> settings.hearSettings: another one? --> log, Differing
//	                            heardAnswer   <-- an answer, if that is news
//
// A proxy that hears of others goes on: it cannot know who is right, and anybody who may publish could
// otherwise stop all of them.

const (
	// announceEach is how often a proxy says what it has, and forgetAfter how long that counts.
	announceEach = 20 * time.Second
	forgetAfter  = 3 * announceEach
	// mostSettings bounds the digests of one message.
	mostSettings = 4 << 10
	// shown is how many proxies Disagreement names.
	shown = 8
)

// announcing is the topic of messages that ask nothing else. Without digests they ask for those of others.
const announcing = "settings"

// Differing is a proxy that has other settings.
type Differing struct {
	Proxy    string   // its id, as it says
	Settings []string // names of those that differ; sorted
	heard    time.Time
}

// settings is what must be the same in all proxies, and who has it otherwise. Safe for concurrent use.
// Digests go over the channel in place of values, which may be nobody else's business.
type settings struct {
	own   map[string]string // digests, by the name of the setting
	text  []byte            // the same, as it is sent
	lines journal.Lines

	mu     sync.Mutex
	differ map[string]Differing // by the id of the proxy
}

// newSettings makes the digests: 16 hex digits of the SHA-256 of name and value.
func newSettings(values map[string]string) *settings {
	s := &settings{own: make(map[string]string), differ: make(map[string]Differing)}
	for name, value := range values {
		sum := sha256.Sum256([]byte(name + "\x00" + value))
		s.own[name] = hex.EncodeToString(sum[:8])
	}
	s.text, _ = json.Marshal(s.own) // it has texts
	return s
}

// hearSettings notes what a proxy has sent, if it is told, and says whether it differs and that was not
// known. Settings that one of the two proxies does not know are left out: it is older. Of those that differ
// no more than mostAnswers are remembered: ids may be made up.
func (s *settings) hearSettings(log *slog.Logger, from string, text []byte) (news bool) {
	var other map[string]string
	if len(text) == 0 || len(text) > mostSettings || json.Unmarshal(text, &other) != nil {
		return false
	}
	now := Differing{Proxy: from, heard: time.Now()}
	for _, name := range slices.Sorted(maps.Keys(s.own)) {
		if digest, is := other[name]; is && digest != s.own[name] {
			now.Settings = append(now.Settings, name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.differ[from]
	switch {
	case now.Settings == nil:
		delete(s.differ, from)
		return false
	case !known && s.forgetSilent() >= mostAnswers:
		return false
	}
	s.differ[from] = now
	if news = !slices.Equal(before.Settings, now.Settings); news {
		s.lines.Write(log, slog.LevelWarn, "another proxy has other settings: both may grant one lock",
			"proxy", from, "settings", strings.Join(now.Settings, ", "))
	}
	return news
}

// forgetSilent forgets who has not been heard for long, and returns how many are left. s.mu is held.
func (s *settings) forgetSilent() int {
	maps.DeleteFunc(s.differ, func(_ string, d Differing) bool { return time.Since(d.heard) > forgetAfter })
	return len(s.differ)
}

// Differing are the other proxies that were heard lately and have other settings, by id.
func (p *Peers) Differing() []Differing {
	if p == nil {
		return nil
	}
	p.settings.mu.Lock()
	defer p.settings.mu.Unlock()
	p.settings.forgetSilent()
	return slices.SortedFunc(maps.Values(p.settings.differ), func(a, b Differing) int {
		return cmp.Compare(a.Proxy, b.Proxy)
	})
}

// Compare asks all other proxies for their settings; then Differing has those that differ. silent is as in
// Ask. It blocks as Ask does.
func (p *Peers) Compare(ctx context.Context) (heard int, silent []string) {
	all, silent := p.Ask(ctx, announcing, nil)
	return len(all), silent
}

// Disagreement is an error that names them, or nil.
func (p *Peers) Disagreement() error {
	all := p.Differing()
	if len(all) == 0 {
		return nil
	}
	var names []string
	for _, d := range all[:min(len(all), shown)] {
		names = append(names, d.Proxy+" ("+strings.Join(d.Settings, ", ")+")")
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("locks: other proxies have other settings, so two clients may get one lock: %s",
		strings.Join(names, ", "))
}
