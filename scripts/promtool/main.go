// `promtool test rules` alone: promtool's own unittest.go is put beside this file when it is built (test/support/promtool.ts).
// The whole of promtool holds the service discovery of every cloud, and takes Go many times as long.
//
//	promtool <file with tests>...
package main

import (
	"os"

	"github.com/prometheus/prometheus/promql/promqltest"
)

const (
	successExitCode = 0
	failureExitCode = 1
)

func main() {
	os.Exit(RulesUnitTest(promqltest.LazyLoaderOpts{}, nil, true, false, false, os.Args[1:]...))
}
