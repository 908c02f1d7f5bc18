import { completionScript, SHELLS } from '../cli/completion-script.ts'
import { hostlessCommand } from '../command.ts'
import { choice } from '../fields.ts'
import { Refused } from '../refused.ts'

export const completion = hostlessCommand({
  name: 'completion',
  topic: 'Development',
  summary: 'Prints a script that completes commands and options in your shell.',
  examples: [
    'source <(integrations completion bash)',
    'source <(integrations completion zsh)',
    'integrations completion fish > ~/.config/fish/completions/integrations.fish',
  ],
  places: ['shell'],
  workflow: { none: 'its result is a script for the shell that asks' },
  fields: { shell: choice('the shell that it is for', SHELLS, 'shell') },
  async runWithoutHost({ program }, { shell }) {
    if (program === undefined) throw new Refused('usage', 'A completion script is for a command line.')
    return { shell, script: completionScript(program, shell) }
  },
  show: ({ script }) => script,
})
