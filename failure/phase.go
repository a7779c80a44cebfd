package failure

// Phase is the stage at which something failed.
type Phase string

// The phases, in the order in which a change passes them.
const (
	PhaseOptions   Phase = "options"    // contradicting or impossible options
	PhaseResolve   Phase = "resolve"    // finding out where a kind is served
	PhaseList      Phase = "list"       // reading a list
	PhaseWatchOpen Phase = "watch open" // asking for a watch
	PhaseWatch     Phase = "watch"      // reading a watch
	PhaseDecode    Phase = "decode"     // making an object of bytes
	PhaseTransform Phase = "transform"  // calling a transform
	PhaseIndex     Phase = "index"      // calling an index function
	PhaseHandler   Phase = "handler"    // calling a handler
	PhaseCache     Phase = "cache"      // keeping cached objects as they are
	PhaseSnapshot  Phase = "snapshot"   // writing what is cached into a file
	PhaseHook      Phase = "hook"       // calling OnError, OnState or OnSync
)
