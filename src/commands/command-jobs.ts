/** A command of the command line, run by a worker. Rule: docs/behaviour/commands-as-workflows.md. */

/** One call of a command. */
export interface CommandCall {
  /** Its name, as on the command line: `circuit`. */
  readonly command: string
  /** Its arguments and options by their names in camelCase: `{"id":7,"action":"open"}`. Whatever a person typed. */
  readonly input: unknown
  /** Who is asking, for logs and the log of operator actions. */
  readonly by: string
  /** Aborted where a terminal would press Ctrl-C. */
  readonly signal: AbortSignal
}

export interface CommandAnswer {
  /** That of the command line. */
  readonly exitCode: number
  /** What `--json` prints. */
  readonly document: unknown
  /** What else a terminal would show: warnings, a line each. */
  readonly notes: readonly string[]
}

export type CommandRunner = (call: CommandCall) => Promise<CommandAnswer>

/** Exit codes as docs/commands.md has them. */
export const COMMAND_EXIT = {
  done: 0,
  /** Bad input, a refusal, or a part that failed. */
  refused: 1,
  /** Postgres, or a Temporal or a worker that the command needs, did not answer, or Postgres was lost while the command ran. */
  unreachable: 2,
  /** Ctrl-C: 128 and the signal's number, as shells count. */
  interrupted: 130,
} as const

/** What a command's workflow asks its activity for. */
export interface RunCommandInput {
  readonly command: string
  readonly input: unknown
  readonly workflowId: string
}

export type RunCommandResult = Pick<CommandAnswer, 'document' | 'notes'>
