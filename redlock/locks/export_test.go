package locks

import "slices"

// Reverse makes a mutant of a Set, which takes its locks in another order than all others.
func (s *Set) Reverse() { slices.Reverse(s.parts) }
