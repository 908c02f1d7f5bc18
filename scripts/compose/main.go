// Prints the Compose file of the working directory as Docker Compose understands it, as JSON: variables filled in from the
// environment and .env, anchors and extensions resolved, every value checked and of its type.
//
// The library is Docker Compose's own (https://github.com/compose-spec/compose-go). Its command is not used: as of v2.16.2 it
// fills variables in from nowhere, since LoadModel is given no environment.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	options, err := cli.NewProjectOptions(nil,
		cli.WithOsEnv,
		cli.WithEnvFiles(),
		cli.WithDotEnv,
		cli.WithDefaultConfigPath,
		cli.WithResolvedPaths(true),
	)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	model, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(model)
	return err
}
