package main

import (
	"errors"
	"regexp"
	"strings"
)

const environPrefix = "LOCKPROXY_"

// injected are variables that Kubernetes sets in every container beside a service
// called lockproxy ("Service environment variables"). They are no settings.
var injected = regexp.MustCompile(`^LOCKPROXY_(SERVICE_HOST|SERVICE_PORT(_.+)?|` +
	`PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// readEnviron reads the settings among the variables: LOCKPROXY_LOCK_LEASE=30s.
// One that is set but empty counts as given.
func readEnviron(environ []string) ([]given, error) {
	var all []given
	var wrong []error
	for _, variable := range environ {
		key, value, _ := strings.Cut(variable, "=")
		word, ok := strings.CutPrefix(key, environPrefix)
		if !ok || injected.MatchString(key) {
			continue
		}
		name := strings.ReplaceAll(strings.ToLower(word), "_", "-")
		if spellEnviron(name) != key {
			name = word // lower case or dashes: variables are not written like that
		}
		if err := known(name, key, spellEnviron); err != nil {
			wrong = append(wrong, err)
			continue
		}
		all = append(all, given{name, value, key + "=" + find(name).shown(value)})
	}
	return all, errors.Join(wrong...)
}

// spellEnviron is the variable of a setting.
func spellEnviron(name string) string {
	return environPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
