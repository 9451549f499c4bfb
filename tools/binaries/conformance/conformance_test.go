// The official conformance suite as a program, and a list of its tests for the caller.
package conformance

import (
	"encoding/json"
	"os"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
)

func TestConformance(t *testing.T) {
	conformance.RunConformance(t)
}

// TestList writes the names of all tests, with the features that each needs, to the file $TEST_LIST.
func TestList(t *testing.T) {
	path := os.Getenv("TEST_LIST")
	if path == "" {
		t.Skip("TEST_LIST names no file")
	}
	needed := map[string][]string{}
	for _, test := range tests.ConformanceTests {
		features := []string{}
		for _, feature := range test.Features {
			features = append(features, string(feature))
		}
		needed[test.ShortName] = features
	}
	text, err := json.Marshal(needed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
