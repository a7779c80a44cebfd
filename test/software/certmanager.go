package main

// certManager returns the test suites for cert-manager's controllers. They create informers for fake clients,
// and compare the controllers' actions with a script. The two Venafi suites are excluded, because their
// library was not available from the module proxy when this release was chosen.
func certManager() *suite {
	return &suite{
		name:    "cert-manager controllers",
		module:  "github.com/cert-manager/cert-manager",
		version: "v1.21.2",
		packages: []string{
			"./pkg/controller/acmechallenges",
			"./pkg/controller/acmechallenges/scheduler",
			"./pkg/controller/acmeorders",
			"./pkg/controller/certificate-shim",
			"./pkg/controller/certificate-shim/gateways",
			"./pkg/controller/certificate-shim/ingresses",
			"./pkg/controller/certificate-shim/listenerset",
			"./pkg/controller/certificaterequests",
			"./pkg/controller/certificaterequests/acme",
			"./pkg/controller/certificaterequests/approver",
			"./pkg/controller/certificaterequests/ca",
			"./pkg/controller/certificaterequests/selfsigned",
			"./pkg/controller/certificaterequests/vault",
			"./pkg/controller/certificates/issuing",
			"./pkg/controller/certificates/issuing/internal",
			"./pkg/controller/certificates/keymanager",
			"./pkg/controller/certificates/readiness",
			"./pkg/controller/certificates/requestmanager",
			"./pkg/controller/certificates/revisionmanager",
			"./pkg/controller/certificates/trigger",
			"./pkg/controller/certificatesigningrequests",
			"./pkg/controller/certificatesigningrequests/acme",
			"./pkg/controller/certificatesigningrequests/ca",
			"./pkg/controller/certificatesigningrequests/selfsigned",
			"./pkg/controller/certificatesigningrequests/vault",
			"./pkg/controller/clusterissuers",
			"./pkg/controller/issuers",
		},
		chosen:       "`NewSharedIndexInformerWithOptions`",
		once:         true,
		dependencies: []dependency{{"k8s.io/client-go", clientGoVersion, sharedInformerChoice()}},
		choose:       chosenSharedInformers(),
	}
}
