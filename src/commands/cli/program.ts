/** The `integrations` command. Each subcommand is a file of its own. */
import { Command, CommanderError } from 'commander'
import { packageVersion } from '../../framework/package-version.ts'
import { advanceCursorCommand } from '../advance-cursor.ts'
import { bundleWorkflowsCommand } from '../bundle-workflows.ts'
import { cancelSyncCommand } from '../cancel-sync.ts'
import type { AnyCommand } from '../command.ts'
import { TOPICS } from '../command.ts'
import { completionCommand } from '../completion.ts'
import { configCommand } from '../config.ts'
import { disableCommand } from '../disable.ts'
import { dismissWebhookCommand } from '../dismiss-webhook.ts'
import { doctorCommand } from '../doctor.ts'
import { enableCommand } from '../enable.ts'
import { eraseCommand } from '../erase.ts'
import { evaluateFailuresCommand } from '../evaluate-failures.ts'
import { findOrphansCommand } from '../find-orphans.ts'
import { healthCommand } from '../health.ts'
import { incidentsCommand } from '../incidents.ts'
import { TABLE } from '../index.ts'
import { installCommand } from '../install.ts'
import { keysCommand } from '../keys.ts'
import { listCommand } from '../list.ts'
import { listFailedItemsCommand } from '../list-failed-items.ts'
import { listSyncRunsCommand } from '../list-sync-runs.ts'
import { makeProviderCommand } from '../make-provider.ts'
import { migrateCommand } from '../migrate.ts'
import { notificationsCommand } from '../notifications.ts'
import { oauthLinkCommand } from '../oauth-link.ts'
import { oauthStatusCommand } from '../oauth-status.ts'
import { pauseSyncCommand } from '../pause-sync.ts'
import { pruneCommand } from '../prune.ts'
import { rateLimitCommand } from '../rate-limit.ts'
import { reconcileWebhooksCommand } from '../reconcile-webhooks.ts'
import { recoverWebhooksCommand } from '../recover-webhooks.ts'
import { refreshTokensCommand } from '../refresh-tokens.ts'
import { replayWebhookCommand } from '../replay-webhook.ts'
import { resumeSyncCommand } from '../resume-sync.ts'
import { retrySyncItemCommand } from '../retry-sync-item.ts'
import { revokeOAuthCommand } from '../revoke-oauth.ts'
import { rotateWebhookSecretCommand } from '../rotate-webhook-secret.ts'
import { schedulesCommand } from '../schedules.ts'
import { showCommand } from '../show.ts'
import { showSyncRunCommand } from '../show-sync-run.ts'
import { skipSyncItemCommand } from '../skip-sync-item.ts'
import { statsCommand } from '../stats.ts'
import { syncCommand } from '../sync.ts'
import { syncProgressCommand } from '../sync-progress.ts'
import { testCommand } from '../test.ts'
import { declare } from './command-line.ts'
import type { FrameOptions } from './create-frame.ts'
import { createFrame, jsonLine, withCommonOptions } from './create-frame.ts'
import { failureOf } from './failure.ts'
import type { Frame } from './frame.ts'
import { plainLines } from './plain.ts'
import type { Terminal } from './terminal.ts'

export type ProgramOptions = Omit<FrameOptions, 'onExitCode'>

const COMMANDS: readonly ((frame: Frame) => Command)[] = [
  migrateCommand,
  doctorCommand,
  configCommand,
  keysCommand,
  schedulesCommand,
  installCommand,
  oauthLinkCommand,
  oauthStatusCommand,
  refreshTokensCommand,
  revokeOAuthCommand,
  listCommand,
  showCommand,
  testCommand,
  enableCommand,
  disableCommand,
  rateLimitCommand,
  healthCommand,
  statsCommand,
  evaluateFailuresCommand,
  incidentsCommand,
  eraseCommand,
  syncCommand,
  syncProgressCommand,
  pauseSyncCommand,
  resumeSyncCommand,
  cancelSyncCommand,
  listSyncRunsCommand,
  showSyncRunCommand,
  listFailedItemsCommand,
  retrySyncItemCommand,
  skipSyncItemCommand,
  advanceCursorCommand,
  replayWebhookCommand,
  dismissWebhookCommand,
  recoverWebhooksCommand,
  reconcileWebhooksCommand,
  rotateWebhookSecretCommand,
  findOrphansCommand,
  pruneCommand,
  notificationsCommand,
  makeProviderCommand,
  bundleWorkflowsCommand,
  completionCommand,
]

/** Runs one command line. @returns the exit code */
export function runProgram(words: readonly string[], options: ProgramOptions): Promise<number> {
  // Known before the words are parsed: a word too many is a failure like any other.
  const json = words.slice(0, words.includes('--') ? words.indexOf('--') : undefined).includes('--json')
  return runInFrame({ ...options, json }, (frame) =>
    createProgram(frame, options.terminal).parseAsync(words, { from: 'user' }),
  )
}

/** Runs what stands in a frame, and prints its failure. @returns the exit code */
export async function runInFrame(options: ProgramOptions, work: (frame: Frame) => Promise<unknown>): Promise<number> {
  const { terminal, json = false } = options
  let exitCode = 0
  const frame = createFrame({
    ...options,
    onExitCode: (code) => {
      exitCode = code
    },
  })
  try {
    await work(frame)
    return exitCode
  } catch (error) {
    // Help and version.
    if (error instanceof CommanderError && error.exitCode === 0) return 0
    const failure = failureOf(error)
    if (json) terminal.out(jsonLine(failure.document))
    if (!json || failure.document.error.code === 'unexpected_error') terminal.err(`${plainLines(failure.text)}\n`)
    return failure.exitCode
  }
}

/** All commands, in the order of the help. They throw what goes wrong and never end the process. */
export function createProgram(frame: Frame, terminal: Terminal, table = TABLE): Command {
  const program = withCommonOptions(new Command('integrations'))
    .description('Operates the integrations of the host whose integrations.config.ts is here.')
    .version(packageVersion(), '--version', 'print the version')
    .addHelpText('after', HELP)
  for (const create of COMMANDS) program.addCommand(create(frame))
  for (const each of byTopic(table)) program.addCommand(declare(frame, each))
  for (const command of [program, ...program.commands])
    command
      .exitOverride()
      .showSuggestionAfterError()
      .configureHelp({ subcommandTerm: termOf })
      // Commander's error is thrown as well; runProgram() prints it.
      .configureOutput({ writeOut: terminal.out, writeErr: terminal.err, outputError: () => {} })
  return program
}

const HELP = `
Each command also goes by its name with "integrations:" before it.
The host's module is found by INTEGRATIONS_CONFIG, else it is integrations.config.ts, .js or .mjs here.
Exit codes: 0 done or nothing to do; 1 bad input, refused, or a part failed; 2 Postgres or Temporal not reached.`

/** The name and its arguments; every command has the same kind of alias, which the help names once. */
function termOf(command: Command): string {
  const args = command.registeredArguments.map((argument) =>
    argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
  )
  return [command.name(), ...args].join(' ')
}

/** In the order of the help. */
function byTopic(table: readonly AnyCommand[]): AnyCommand[] {
  return table.toSorted((a, b) => TOPICS.indexOf(a.topic) - TOPICS.indexOf(b.topic))
}
