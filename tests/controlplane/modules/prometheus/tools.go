//go:build tools

// Package tools names the commands that are built, so that go.mod keeps what they need.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
