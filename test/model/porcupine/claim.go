package main

// claimedRow is a row that workers claim. A worker whose claim was lost settles nothing; a settlement writes one log row.
// Rule: docs/behaviour/webhooks.md, "Claims" and "Settling".
type claimedRow struct {
	status   string
	owner    string
	attempts int
	lost     int
	logs     int
}

func stepClaim(state any, made operation) []any {
	row, given := state.(claimedRow), made.Input
	held := row.status == "processing" && row.owner == given.Owner && row.attempts == given.Attempts
	next := row
	var may bool
	switch given.Kind {
	case "claim next":
		// Rows that lost a worker are set apart. A row that such a claim leaves out says nothing: another one may have been taking it.
		may = row.status == "pending" && row.lost == 0
		next.status, next.owner, next.attempts = "processing", given.Owner, row.attempts+1
		return allowedIf(may && (made.isPending() || made.Output.Attempts == next.attempts), next)
	case "claim":
		may = row.status == "pending"
		if given.Status == "settled" {
			may = row.status == "processed" || row.status == "failed"
		}
		next.status, next.owner, next.attempts = "processing", given.Owner, row.attempts+1
	case "settle":
		may = held
		next.status, next.owner, next.lost, next.logs = given.Status, "", 0, row.logs+1
	case "hand back":
		may = held
		next.status, next.owner, next.attempts = "pending", "", row.attempts-1
	case "take up":
		may = held
		next.owner, next.attempts, next.lost = given.NewOwner, row.attempts+1, row.lost+1
	case "read":
		seen := claimedRow{made.Output.Status, made.Output.Owner, made.Output.Attempts, made.Output.Lost, made.Output.Logs}
		return allowedIf(made.isPending() || seen == row, row)
	}
	if made.isPending() {
		return allowedIf(may, next)
	}
	if !made.Output.Done {
		return allowedIf(!may, row)
	}
	return allowedIf(may && (made.Output.Attempts == 0 || made.Output.Attempts == next.attempts), next)
}
