/**
 * Every command with its workflow, or the reason why it has none, in the order of the help: from the table of commands.
 *
 * Rule: docs/behaviour/commands-as-workflows.md.
 */
import { startOf } from '../../scripts/generated-commands.ts'
import { TOPICS } from '../../src/commands/command.ts'
import { TABLE } from '../../src/commands/index.ts'

interface CommandWorkflow {
  readonly command: string
  /** The workflow type, as in `temporal workflow execute --type`. */
  readonly type: `integrations:${string}`
  /** `own`: a workflow with an input and a result of its own. `program`: the command itself; its result is the document of `--json`. */
  readonly runs: 'own' | 'program'
  /** After the deployment's `cache_prefix` and a colon. `:<…>` names a field of the input, which follows if it is given. */
  readonly id: string
}

interface NoWorkflow {
  readonly command: string
  readonly type: null
  readonly reason: string
}

export const COMMAND_WORKFLOWS: readonly (CommandWorkflow | NoWorkflow)[] = TABLE.toSorted(
  (a, b) => TOPICS.indexOf(a.topic) - TOPICS.indexOf(b.topic),
).map((command) => {
  const { name, workflow = 'program' } = command
  if (typeof workflow === 'object') return { command: name, type: null, reason: workflow.none }
  return { command: name, type: `integrations:${name}` as const, runs: workflow, id: startOf(command)[1] }
})
