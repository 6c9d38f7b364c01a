//go:build quick

package rig

import "testing"

// onRedis runs nothing: with the tag quick tests need no server.
func onRedis(*testing.T, func(t *testing.T, s *Server)) {}
