// Judges histories of operations: is there an order in which the object's model allows all of them, each between its beginning and its
// end? Reads one operation a line from stdin, as JSON, and writes one verdict an object, as JSON.
//
// docs/linearizability.md. Source: https://github.com/anishathalye/porcupine.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// operation is one line of stdin.
type operation struct {
	// Object is what the operation was made on, such as one row.
	Object string `json:"object"`
	Model  string `json:"model"`
	Client int    `json:"client"`
	// Call and Return are nanoseconds by a monotonic clock that all processes share. Return null: its process died.
	Call   int64  `json:"call"`
	Return *int64 `json:"return"`
	// Failed: it took effect by Return, or never. What failed does not say which.
	Failed bool `json:"failed"`
	// CallMs and ReturnMs are the same by the clock that Postgres has, too, in milliseconds since the epoch.
	CallMs   int64  `json:"callMs"`
	ReturnMs int64  `json:"returnMs"`
	Input    input  `json:"input"`
	Output   output `json:"output"`
}

func (o operation) isPending() bool { return o.Return == nil || o.Failed }

type verdict struct {
	Object     string `json:"object"`
	Model      string `json:"model"`
	Operations int    `json:"operations"`
	Pending    int    `json:"pending"`
	// Verdict is `legal`, `illegal` or `undecided`: no answer in time.
	Verdict string `json:"verdict"`
	// Stuck says where the longest order that the model allows ends, of an illegal history.
	Stuck string `json:"stuck,omitempty"`
}

func main() {
	limit := flag.Duration("limit", 30*time.Second, "time for one object")
	flag.Parse()
	if err := judgeAll(os.Stdin, os.Stdout, *limit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judgeAll(from io.Reader, to io.Writer, limit time.Duration) error {
	histories, err := read(from)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(histories))
	for name := range histories {
		names = append(names, name)
	}
	sort.Strings(names)
	answers := json.NewEncoder(to)
	for _, name := range names {
		judged, err := judge(name, histories[name], limit)
		if err != nil {
			return err
		}
		if err := answers.Encode(judged); err != nil {
			return err
		}
	}
	return nil
}

func read(from io.Reader) (map[string][]operation, error) {
	histories := map[string][]operation{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		var read operation
		if err := json.Unmarshal(lines.Bytes(), &read); err != nil {
			return nil, fmt.Errorf("line %d: expected an operation as JSON: %w", number, err)
		}
		histories[read.Object] = append(histories[read.Object], read)
	}
	return histories, lines.Err()
}

func judge(object string, history []operation, limit time.Duration) (verdict, error) {
	name := history[0].Model
	model, known := models[name]
	if !known {
		return verdict{}, fmt.Errorf("object %s: no model is called %q", object, name)
	}
	judged := verdict{Object: object, Model: name, Operations: len(history)}
	endMs := int64(0)
	for _, each := range history {
		endMs = max(endMs, each.CallMs, each.ReturnMs)
	}
	operations := make([]porcupine.Operation, len(history))
	for at, each := range history {
		if each.Model != name {
			return verdict{}, fmt.Errorf("object %s: it has the models %q and %q", object, name, each.Model)
		}
		ends := int64(math.MaxInt64)
		if each.isPending() {
			judged.Pending++
		}
		if each.Return == nil {
			// What its server process did, it did before the last line was written, or no one has seen it.
			each.ReturnMs = endMs
		} else {
			ends = *each.Return
		}
		operations[at] = porcupine.Operation{ClientId: each.Client, Input: each, Call: each.Call, Return: ends}
	}
	result, info := porcupine.CheckOperationsVerbose(checked(model), operations, limit)
	judged.Verdict = map[porcupine.CheckResult]string{porcupine.Ok: "legal", porcupine.Illegal: "illegal", porcupine.Unknown: "undecided"}[result]
	if result == porcupine.Illegal {
		judged.Stuck = stuckAt(history, info)
	}
	return judged, nil
}

// checked is our model as the checker takes it. An operation without an end has taken effect, or has not.
func checked(ours model) porcupine.Model {
	several := porcupine.NondeterministicModel{
		Init: func() []any { return []any{ours.initial} },
		Step: func(state, of, _ any) []any {
			made := of.(operation)
			next := ours.step(state, made)
			if made.isPending() {
				next = append(next, state)
			}
			return next
		},
	}
	return several.ToModel()
}

// stuckAt names the last operations of the longest order, and the one outside of it that ends first.
func stuckAt(history []operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := map[int]bool{}
	for _, at := range longest {
		placed[at] = true
	}
	next := -1
	for at, each := range history {
		if !placed[at] && !each.isPending() && (next < 0 || *each.Return < *history[next].Return) {
			next = at
		}
	}
	text := fmt.Sprintf("%d of %d operations have an order", len(longest), len(history))
	for _, at := range longest[max(0, len(longest)-3):] {
		text += "; " + described(history[at])
	}
	if next >= 0 {
		text += "; then not: " + described(history[next])
	}
	return text
}

func described(made operation) string {
	given, _ := json.Marshal(made.Input)
	answer := []byte("?")
	if !made.isPending() {
		answer, _ = json.Marshal(made.Output)
	}
	return fmt.Sprintf("client %d %s -> %s", made.Client, given, answer)
}
