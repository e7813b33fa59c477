package child

import "fmt"

// A LimitError means that a limit cannot be applied, so that the program is not started.
type LimitError struct {
	// Limit is memory, processes or files.
	Limit string
	Fix   string
	err   error
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("its limit of %s cannot be set: %v", e.Limit, e.err)
}

func (e *LimitError) Unwrap() error { return e.err }
