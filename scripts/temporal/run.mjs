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
    // A terminal that is gone answers EIO.
    if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error
  })

/** From the first signal on nothing more is started. `workflowId` is what may live, once the command was given to `temporal`. */
const ending = { isAsked: false, child: null, workflowId: null }
const askedTwice = new Promise((resolve) => {
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(name, () => {
      // Somebody who asks twice does not want to wait.
      if (ending.isAsked) resolve(interruption())
      ending.child?.kill(ending.isAsked ? 'SIGKILL' : name)
      ending.isAsked = true
    })
})

const outcome = await Promise.race([run(), askedTwice])
if (outcome !== null) tell(outcome)
// What `temporal` still holds is not waited for, what was written is.
if (ending.isAsked) process.stdout.write('', () => process.stderr.write('', () => process.exit()))

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
  if (ending.isAsked) return interruption()
  return [0, 1].includes(looked.exitCode) ? execute(command, id, input) : looked
}

async function execute(name, id, input, options = []) {
  const workflowId = `${prefix}:${id}`
  if (name === command) ending.workflowId = workflowId
  const args = [
    ...['workflow', 'execute', '--type', `integrations:${name}`, '--workflow-id', workflowId],
    ...['--input', JSON.stringify(input), ...options],
    ...['--task-queue', `${prefix}-${process.env.INTEGRATIONS_QUEUE || 'default'}`],
    ...['--client-connect-timeout', CONNECT_TIMEOUT],
    // Raw payloads: the shorthand makes null of an empty list.
    ...['--output', 'jsonl', '--no-json-shorthand-payloads', '--log-format', 'json', '--color', 'never'],
  ]
  const { lines, fault } = await printedBy(args, workflowId)
  if (fault !== null) return refusal(1, 'usage', notRun(fault))
  if (ending.isAsked && !lines.some((line) => line.includes('"closeEvent"'))) return interruption()
  try {
    return outcomeOf(name, lines)
  } catch (error) {
    return refusal(1, 'invalid_configuration', error.message)
  }
}

/** What it printed on both its streams until it ended, and why it could not be run. */
async function printedBy(args, workflowId) {
  const printed = { out: '', err: '' }
  const patience = setTimeout(
    () => say(`Still waiting for ${workflowId}: it takes long, or no worker runs. \`integrations doctor\` says which.`),
    PATIENCE_MS,
  )
  try {
    const fault = await new Promise((resolve, reject) => {
      const child = spawn(temporal, args, { stdio: ['ignore', 'pipe', 'pipe'] })
      ending.child = child
      child.stdout.setEncoding('utf8').on('data', (text) => {
        printed.out += text
      })
      child.stderr.setEncoding('utf8').on('data', (text) => {
        printed.err += text
      })
      child.on('error', reject)
      child.on('close', () => resolve(null))
    }).catch((error) => error)
    return { lines: `${printed.out}\n${printed.err}`.split('\n'), fault }
  } finally {
    clearTimeout(patience)
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

function interruption() {
  return refusal(130, 'interrupted', interrupted(ending.workflowId))
}

function interrupted(workflowId) {
  if (workflowId === null) return 'Interrupted. Nothing was started.'
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
      'Exit codes: 0 done or nothing to do; 1 bad input, refused, or a part failed; 2 Postgres or Temporal not reached; 130 interrupted.',
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
