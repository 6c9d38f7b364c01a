package settings

import (
	"regexp"
	"slices"
	"strings"
)

// environPrefix begins the variables of settings, and some others (Sources.Others).
const environPrefix = "LOCKPROXY_"

// injected are variables that Kubernetes sets in every container beside a service
// called lockproxy ("Service environment variables"). They are no settings.
var injected = regexp.MustCompile(`^LOCKPROXY_(SERVICE_HOST|SERVICE_PORT(_.+)?|` +
	`PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// readEnviron reads the settings among the variables: LOCKPROXY_LOCK_LEASE=30s.
// One that is set but empty counts as given. They are in the order of their names.
func (src Sources) readEnviron() []given {
	var all []given
	for _, variable := range slices.Sorted(slices.Values(src.Environ)) {
		key, value, _ := strings.Cut(variable, "=")
		word, ok := strings.CutPrefix(key, environPrefix)
		// Others of this prefix that are no settings are mistakes: a misspelt LOCKPROXY_LOCK_LEESE must not
		// be passed over.
		if !ok || injected.MatchString(key) || slices.Contains(src.Others, key) {
			continue
		}
		name := strings.ReplaceAll(strings.ToLower(word), "_", "-")
		if spellEnviron(name) != key {
			name = word // lower case or dashes: variables are not written like that
		}
		if s := Find(name); s != nil {
			all = append(all, given{name: name, value: value, where: key + "=" + s.shownValue(value)})
		} else {
			all = append(all, stranger(name, key, spellEnviron))
		}
	}
	return all
}

// spellEnviron is the variable of a setting.
func spellEnviron(name string) string {
	return environPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
