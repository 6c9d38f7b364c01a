package locks

import "slices"

// Reverse makes a mutant of a LockSet, which takes its locks in another order than all others.
func (s *LockSet) Reverse() { slices.Reverse(s.parts) }
