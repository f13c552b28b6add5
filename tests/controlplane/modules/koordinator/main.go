// Command koord-scheduler is Koordinator's scheduler with the one plugin that the tests are about,
// and the one that Koordinator itself adds to every profile.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/koordinator-sh/koordinator/cmd/koord-scheduler/app"
	// Makes the arguments of Koordinator's plugins known to the configuration file.
	_ "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config/scheme"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/defaultprebind"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/elasticquota"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(
		app.WithPlugin(elasticquota.Name, elasticquota.New),
		app.WithPlugin(defaultprebind.Name, defaultprebind.New),
	)))
}
