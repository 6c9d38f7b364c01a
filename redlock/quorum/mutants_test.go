package quorum_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"lockproxy/internal/resp"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// caught says what the model has against a mutant. The first schedule shows it nearly always. Which goroutine
// runs first makes a difference at times; then there are others.
func caught(t *testing.T, want string, first int, alter func(s *network)) {
	for seed := first; seed < first+1000; seed++ {
		var err error
		synctest.Test(t, func(t *testing.T) { err = simulate(t, schedules.Example(seed), alter) })
		if err != nil && strings.Contains(err.Error(), want) {
			t.Logf("caught by schedule %d: %.400s", seed, err)
			return
		}
	}
	t.Error("the mutant was not caught")
}

// A mutant that takes the highest of the fences that the nodes made, without giving it back to them, is
// caught: fences are not unique, or fall. R27
func TestQuorumModelCatchesNoSettle(t *testing.T) {
	caught(t, "fence", 3, func(s *network) {
		for _, links := range s.links {
			for _, l := range links {
				l.instead = func(req []byte) ([]byte, []byte) {
					switch rig.ScriptOf(req) {
					case "settle":
						return nil, []byte(":1\r\n")
					case "claim": // nor does the candidate do the settling
						args, _, _ := resp.Split(req, nil)
						if wanted := &args[10]; len(*wanted) > 0 {
							*wanted = []byte("0")
						}
						return resp.AppendCommand(nil, args...), nil
					}
					return req, nil
				}
			}
		}
	})
}

// A mutant that takes nothing back, though the nodes say that they do, is caught: what a failed round left
// counts as a re-entry. R15
func TestQuorumModelCatchesLeftRounds(t *testing.T) {
	caught(t, "the first grant", 0, func(s *network) {
		for _, links := range s.links {
			for _, l := range links {
				l.instead = func(req []byte) ([]byte, []byte) {
					if rig.ScriptOf(req) == "cancel" {
						return nil, []byte(":1\r\n")
					}
					return req, nil
				}
			}
		}
	})
}

// A mutant whose BREAK also ends holds that are newer than the request is caught: who was granted the lock
// last loses it to an earlier request. R8
func TestQuorumCatchesLateBreaks(t *testing.T) {
	const code = "return tonumber(of_hold) < wanted_fence"
	source := strings.Replace(scripts.Claim.Source, code, "return true", 1)
	if source == scripts.Claim.Source {
		t.Fatalf("claim does not say %s", code)
	}
	on := takeOverLate(t, func(s *network) {
		for _, links := range s.links {
			for _, l := range links {
				l.instead = func(req []byte) ([]byte, []byte) {
					if rig.ScriptOf(req) != "claim" {
						return req, nil
					}
					args, _, _ := resp.Split(req, nil)
					args[0], args[1] = []byte("EVAL"), []byte(source)
					return resp.AppendCommand(nil, args...), nil
				}
			}
		}
	})
	if on != "[0 1]" {
		t.Errorf("the mutant was not caught: the second has it on %s", on)
	}
}

// A mutant that counts what nodes say that have lost their memory is caught: there are two holders. R31
func TestQuorumModelCatchesTrust(t *testing.T) {
	caught(t, "two holders", 7, func(s *network) {
		for _, links := range s.links {
			for _, l := range links {
				l.trust = true
			}
		}
	})
}
