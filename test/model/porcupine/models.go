package main

// model says what an object may answer. A state is comparable; a step gives every state that the object may be in after the operation,
// and none if the operation is not allowed.
type model struct {
	initial any
	step    func(state any, made operation) []any
}

// input holds the arguments of all operations; a model reads its own.
type input struct {
	Kind string `json:"kind"`
	// A claim, or the holder of a key, a lock or a refresh.
	Owner string `json:"owner,omitempty"`
	// Claims: of the row as the caller knows it; NewOwner takes it up.
	Attempts int    `json:"attempts,omitempty"`
	NewOwner string `json:"newOwner,omitempty"`
	// Claims: the row's status before a claim, or after a settlement. Ledger: how a call ended.
	Status string `json:"status,omitempty"`
	// Limiter.
	Callers int64 `json:"callers,omitempty"`
	More    int64 `json:"more,omitempty"`
	Limit   int64 `json:"limit,omitempty"`
	// Limiter: length of the window, or of the quiet. Locks and tokens: life of the lock.
	Ms int64 `json:"ms,omitempty"`
	// Tokens: when the caller has asked, which token it sends or refuses, and which one it brings.
	AskedMs int64  `json:"askedMs,omitempty"`
	Token   string `json:"token,omitempty"`
	New     string `json:"new,omitempty"`
}

// output holds the answers of all operations.
type output struct {
	// Whether it did what was asked.
	Done bool `json:"done,omitempty"`
	// Claims: the row, and how many log rows it has.
	Status   string `json:"status,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Lost     int    `json:"lost,omitempty"`
	Logs     int    `json:"logs,omitempty"`
	// Limiter: callers admitted and, where some were not, why and for how long; units given out beyond them; the window's end.
	Admitted int64  `json:"admitted,omitempty"`
	Refusal  string `json:"refusal,omitempty"`
	Ms       int64  `json:"ms,omitempty"`
	Given    int64  `json:"given,omitempty"`
	// Ledger: what is known of the call before: `none`, `unknown` or `answered`.
	Prior string `json:"prior,omitempty"`
	Token string `json:"token,omitempty"`
}

var models = map[string]model{
	"claim":   {claimedRow{status: "pending"}, stepClaim},
	"limiter": {limiter{}, stepLimiter},
	"ledger":  {ledgerKey{}, stepLedger},
	"turns":   {ledgerKey{}, stepTurns},
	"lock":    {lock{}, stepLock},
	"tokens":  {tokens{current: "first"}, stepTokens},
}

func only(state any) []any { return []any{state} }

func allowedIf(is bool, next any) []any {
	if is {
		return only(next)
	}
	return nil
}
