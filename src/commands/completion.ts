import type { Command } from 'commander'
import { Argument } from 'commander'
import { completionScript, SHELLS } from './cli/completion-script.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations completion <shell>`: prints the script that completes commands, options and their choices. */
export function completionCommand(frame: Frame): Command {
  return frame
    .command('completion', 'Prints a script that completes commands and options in your shell.', [
      'source <(integrations completion bash)',
      'source <(integrations completion zsh)',
      'integrations completion fish > ~/.config/fish/completions/integrations.fish',
    ])
    .addArgument(new Argument('<shell>', 'the shell that it is for').choices(SHELLS))
    .action((shell: (typeof SHELLS)[number], options: object, command: Command) =>
      frame.actionWithoutHost(async () => {
        const script = completionScript(command.parent ?? command, shell)
        return { document: { shell, script }, text: script }
      })(shell, options, command),
    )
}
