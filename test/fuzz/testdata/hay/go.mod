module example.com/hay

go 1.26
