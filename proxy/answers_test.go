package proxy

import "testing"

// However many clients wait for an answer at a time, their queues are used again; so are those of pipelines.
func TestAnswersAreUsedAgain(t *testing.T) {
	for _, test := range []struct{ clients, pipeline int }{{5000, 1}, {1000, 16}} {
		spare := &spareAnswers{}
		all := make([]answers, test.clients)
		n := testing.AllocsPerRun(5, func() {
			for i := range all {
				for range test.pipeline {
					all[i].pushAnswer(spare, nil)
				}
			}
			for i := range all {
				for all[i].len() > 0 {
					all[i].popAnswer(spare)
				}
			}
		})
		if n > 0 {
			t.Errorf("%d clients with %d commands each allocate %v times", test.clients, test.pipeline, n)
		}
	}
}
