// Package jsonpath reads places in objects, and texts with such places in them, as kubectl's
// -o jsonpath does (https://kubernetes.io/docs/reference/kubectl/jsonpath/).
//
//	.metadata.name              a member; a backslash keeps a dot in its name: .labels.app\.kubernetes\.io/name
//	['app.kubernetes.io/name']  the same, in quotes
//	[0] [-1] [1:3] [::2]        items, also from the end, and slices
//	[0,2] ['name','status.ip']  several of them
//	[*] .*                      all of them
//	..name                      a member at any depth
//	[?(@.type=="Ready")]        the items of which it is so; also != < <= > >=, or [?(@.nodeName)]
//	$ @                         the whole, and where one is
//
// A template has places in braces: {.metadata.name}, texts: {"\n"}, and loops:
// {range .items[*]}{.metadata.name}{"\n"}{end}. There are no regular expressions.
//
// What is not there is no error: it prints nothing. Each evaluation has a budget that grows
// with the object, so that a template such as {........} ends with an error.
//
// Objects are trees as JSON decodes into any, numbers of any kind. They are not changed.
package jsonpath
