/**
 * Every command of the command line, with its workflow, or the reason why it has no workflow. Tests compare this list with the
 * bundle's exports, the command line, the scripts in scripts/temporal/ and docs/commands.md.
 *
 * Rule: docs/behaviour/commands-as-workflows.md.
 */

interface CommandWorkflow {
  readonly command: string
  /** The workflow type, as in `temporal workflow execute --type`. */
  readonly type: `integrations:${string}`
  /**
   * `own`: a workflow written for the command, with its own input and result.
   * `program`: a worker runs the command line's own program; the result is the document of `--json`.
   */
  readonly runs: 'own' | 'program'
  /**
   * The workflow's id after the deployment's `cache_prefix` and a colon. `:<…>` names a field of the input, which follows if
   * it is given.
   */
  readonly id: string
}

interface NoWorkflow {
  readonly command: string
  readonly type: null
  /** In the words of the documentation. */
  readonly reason: string
}

const own = (command: string, id: string): CommandWorkflow => ({
  command,
  type: `integrations:${command}`,
  runs: 'own',
  id,
})
const program = (command: string, about?: string): CommandWorkflow => ({
  command,
  type: `integrations:${command}`,
  runs: 'program',
  id: about === undefined ? command : `${command}:<${about}>`,
})
const none = (command: string, reason: string): NoWorkflow => ({ command, type: null, reason })

const SECRET_RESULT = 'its result is a secret, and a history is read by many and kept for days'
const LOCAL_FILES = 'it writes files where it is called'

/** In the order of the command line's help. A worker polls each of its task queues for all of them. */
export const COMMAND_WORKFLOWS: readonly (CommandWorkflow | NoWorkflow)[] = [
  none('migrate', 'a worker does not start before the tables are up to date'),
  program('doctor'),
  program('config'),
  program('keys'),
  none('schedules', "Temporal's own `temporal schedule` shows them, and each worker brings them in step at its start"),
  program('install', 'provider'),
  program('update', 'id'),
  none('oauth-link', SECRET_RESULT),
  program('oauth-status', 'id'),
  own('refresh-tokens', 'refresh-tokens:<integrationId>'),
  program('revoke-oauth', 'id'),
  program('list'),
  program('show', 'id'),
  program('test', 'id'),
  program('enable', 'id'),
  program('disable', 'id'),
  program('circuit', 'id'),
  program('rate-limit', 'id'),
  program('health', 'id'),
  program('stats'),
  own('evaluate-failures', 'evaluate-failures'),
  program('incidents', 'id'),
  program('acknowledge-incident', 'id'),
  program('snooze-incident', 'id'),
  program('annotate-incident', 'id'),
  program('delete', 'id'),
  program('erase', 'id'),
  // With an integration it runs the program, which starts the run `sync:<id>`; that id is the run's own.
  own('sync', 'start-sync:<integrationId>'),
  program('sync-progress', 'id'),
  program('pause-sync', 'id'),
  program('resume-sync', 'id'),
  program('cancel-sync', 'id'),
  program('list-sync-runs'),
  program('show-sync-run', 'id'),
  program('finalise-sync-run', 'id'),
  program('list-sync-items'),
  none('show-sync-item', 'an item holds what a provider listed, which must not be copied into a history'),
  own('list-failed-items', 'list-failed-items'),
  own('retry-sync-item', 'sync-item:<itemId>'),
  own('skip-sync-item', 'skip-sync-item:<itemId>'),
  own('advance-cursor', 'advance-cursor:<integrationId>'),
  program('sync-interval', 'id'),
  program('list-webhooks'),
  none('show-webhook', 'a webhook holds what a provider sent, which must not be copied into a history'),
  own('replay-webhook', 'webhook:<webhookId>'),
  program('dismiss-webhook', 'id'),
  own('recover-webhooks', 'recover-webhooks'),
  own('reconcile-webhooks', 'reconcile-webhooks'),
  none('rotate-webhook-secret', SECRET_RESULT),
  own('find-orphans', 'find-orphans'),
  own('prune', 'prune'),
  program('notifications'),
  program('audit'),
  none('create-token', SECRET_RESULT),
  program('list-tokens'),
  program('revoke-token', 'id'),
  none('make-provider', LOCAL_FILES),
  none('bundle-workflows', LOCAL_FILES),
  none('completion', 'its result is a script for the shell that asks'),
]
