/**
 * Runs one command as a workflow, by Temporal's own command line, and ends as `integrations <command>` does.
 *
 * Called by lib.sh, which says what the words before the `--` are: `<mode> <command> <id> <shape>... -- <word>...`.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { outcomeOf, refusal } from './outcome.mjs'
import { allowed, inputOf, wantsJson } from './words.mjs'

const PATIENCE_MS = 10_000
/** Enough to reach a server that is there; `temporal` has no other limit of its own for that. */
const CONNECT_TIMEOUT = '5s'

const separator = process.argv.indexOf('--')
const [mode, command, idPattern, ...shapes] = process.argv.slice(2, separator)
const words = process.argv.slice(separator + 1)
const json = wantsJson(words)
const temporal = process.env.TEMPORAL_CLI || 'temporal'
const prefix = process.env.INTEGRATIONS_PREFIX || 'integrations'

// A reader that goes away early is no failure.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error) => {
    if (error.code !== 'EPIPE') throw error
  })

const outcome = await run()
if (outcome !== null) tell(outcome)

/** Null: help was asked for. */
async function run() {
  let input
  try {
    input = inputOf(shapes, words)
  } catch (error) {
    return refusal(1, 'usage', error.message)
  }
  if (input === null) return help()
  const id = idPattern.replace(/:<(\w+)>/, (_, field) => (input[field] === undefined ? '' : `:${input[field]}`))
  const suffix = randomBytes(4).toString('hex')
  if (mode === 'each') return execute(command, `${id}:${suffix}`, input)
  if (mode === 'once') return execute(command, id, input, ['--fail-existing'])
  // A run that is joined may have begun, and would wait for Postgres as long as that is away.
  const looked = await execute('list', `list:${suffix}`, { limit: 1 })
  return [0, 1].includes(looked.exitCode) ? execute(command, id, input) : looked
}

async function execute(name, id, input, options = []) {
  const workflowId = `${prefix}:${id}`
  const args = [
    ...['workflow', 'execute', '--type', `integrations:${name}`, '--workflow-id', workflowId],
    ...['--input', JSON.stringify(input), ...options],
    ...['--task-queue', `${prefix}-${process.env.INTEGRATIONS_QUEUE || 'default'}`],
    ...['--client-connect-timeout', CONNECT_TIMEOUT],
    // Raw payloads: the shorthand makes null of an empty list.
    ...['--output', 'jsonl', '--no-json-shorthand-payloads', '--log-format', 'json', '--color', 'never'],
  ]
  const { lines, fault, signal } = await printedBy(args, workflowId)
  if (fault !== null) return refusal(1, 'usage', notRun(fault))
  if (signal !== null && !lines.some((line) => line.includes('"closeEvent"')))
    return refusal(130, 'interrupted', interrupted(workflowId))
  try {
    return outcomeOf(name, lines)
  } catch (error) {
    return refusal(1, 'invalid_configuration', error.message)
  }
}

/** What it printed on both its streams until it ended, why it could not be run, and the signal that we were told to end by. */
async function printedBy(args, workflowId) {
  const printed = { out: '', err: '' }
  let signal = null
  let child
  const forward = (name) => {
    // Somebody who asks twice does not want to wait.
    if (signal !== null) process.exit(130)
    signal = name
    child?.kill(name)
  }
  const patience = setTimeout(
    () => say(`Still waiting for ${workflowId}: it takes long, or no worker runs. \`integrations doctor\` says which.`),
    PATIENCE_MS,
  )
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
  for (const name of signals) process.on(name, forward)
  try {
    const fault = await new Promise((resolve, reject) => {
      child = spawn(temporal, args, { stdio: ['ignore', 'pipe', 'pipe'] })
      child.stdout.setEncoding('utf8').on('data', (text) => {
        printed.out += text
      })
      child.stderr.setEncoding('utf8').on('data', (text) => {
        printed.err += text
      })
      child.on('error', reject)
      child.on('close', () => resolve(null))
    }).catch((error) => error)
    return { lines: `${printed.out}\n${printed.err}`.split('\n'), fault, signal }
  } finally {
    clearTimeout(patience)
    for (const name of signals) process.off(name, forward)
  }
}

function notRun({ code, message }) {
  if (code === 'ENOENT')
    return `\`${temporal}\` is not installed: https://docs.temporal.io/cli. TEMPORAL_CLI names it where it is not on PATH.`
  if (code === 'EACCES')
    return `\`${temporal}\` may not be run. TEMPORAL_CLI names the binary, default \`temporal\` on PATH.`
  if (code === 'E2BIG') return 'The words are longer than the system takes for one program.'
  return `\`${temporal}\` could not be run: ${message}.`
}

function interrupted(workflowId) {
  const words = /^[\w:.-]+$/.test(workflowId) ? workflowId : `'${workflowId.replaceAll("'", "'\\''")}'`
  return `Interrupted. If the workflow was started, it goes on; \`temporal workflow cancel --workflow-id ${words}\` ends it.`
}

function help() {
  process.stdout.write(
    [
      `${command}: runs integrations:${command} on a worker. ${allowed(shapes)}`,
      '',
      'TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_…  read by `temporal` itself',
      'INTEGRATIONS_PREFIX  cache_prefix of the deployment; default integrations',
      'INTEGRATIONS_QUEUE   a task queue of its workers, without the prefix; default default',
      'TEMPORAL_CLI         the binary; default `temporal` on PATH',
      '',
      'Exit codes: 0 done or nothing to do; 1 bad input, refused, or a part failed; 2 Postgres or Temporal not reached.',
      '',
    ].join('\n'),
  )
  return null
}

/** The result on stdout, and on stderr what there is to say about it. With --json a failure is a document like any other. */
function tell({ exitCode, document, told, isFailure = false }) {
  process.exitCode = exitCode
  if (json || !isFailure) {
    const text = JSON.stringify(document, null, json ? 0 : 2)
    // What a terminal would obey is escaped, the value stays; JSON.stringify() escapes the characters below U+0020.
    const plain = text.replace(/[\u007f-\u009f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`)
    process.stdout.write(`${plain}\n`)
  }
  if (told !== undefined && !(json && isFailure)) say(told)
}

function say(text) {
  process.stderr.write(`${text.replace(/(?![\n\t])\p{Cc}/gu, '')}\n`)
}
