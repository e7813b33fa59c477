package child

import "fmt"

// A LimitError is the error of a program that cannot be held to its limits, and so is not started.
type LimitError struct {
	// Limit is which: memory, processes or files.
	Limit string
	// Fix says what to do about it.
	Fix string
	err error
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("its limit of %s cannot be set: %v", e.Limit, e.err)
}

func (e *LimitError) Unwrap() error { return e.err }
