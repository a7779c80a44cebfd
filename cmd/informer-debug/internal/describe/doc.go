// Package describe is the verb describe: one object as a cache has it beside the server's, with its
// Events, and what is known of it in the process.
package describe
