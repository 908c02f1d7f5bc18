/**
 * The words of a command line as the input of its workflow.
 *
 * Called by lib.sh: `<command> <id> <shape>... -- <word>...`. A shape says what a word may be:
 *
 * | shape            | word                     | in the input                |
 * | ---------------- | ------------------------ | --------------------------- |
 * | `<id:int>`       | must be there            | `"id": 7`                   |
 * | `[id:int]`       | may be there             |                             |
 * | `--until:text`   | `--until X`, `--until=X` | `"until": "X"`              |
 * | `--dry-run:flag` | `--dry-run`              | `"dryRun": true`            |
 * | `--note:list`    | as often as you like     | `"note": ["X", "Y"]`        |
 * | `--key:env`      | `--key name=env:NAME`    | the same; a value is refused |
 *
 * `<id=itemId:int>` is the word `id` and the field `itemId`. Whether the workflow takes a value is the workflow's to say.
 * Prints the workflow's id, its input, and `json`, `text` or `help`. Exits with 1 and a line for words that don't fit.
 */
const separator = process.argv.indexOf('--')
const [command, workflowId, ...shapes] = process.argv.slice(2, separator).map(String)
const words = process.argv.slice(separator + 1)

const KINDS = {
  int: (text, name) => {
    if (/^\d+$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text)
    throw new Error(`${name} is a whole number, ${JSON.stringify(text)} was given.`)
  },
  text: (text) => text,
  list: (text, _name, before = []) => [...before, text],
  env: (text, name, before = []) => {
    if (/^[^=]+=env:[A-Za-z_]\w*$/.test(text)) return [...before, text]
    // What was given may be a secret: it is not repeated.
    throw new Error(
      `${name} is <key>=env:<NAME>, a variable of the worker's environment: the input of a workflow is kept.`,
    )
  },
}

const { args, options } = shapesOf(shapes)

try {
  const { input, output } = parsed(words)
  if (output === 'help') print('help', help(), 'help')
  else print(idOf(input), JSON.stringify(input), output)
} catch (error) {
  refuse(error.message)
}

function shapesOf(given) {
  const all = given.map((shape) => {
    const [, word, field, kind] = /^[<[]?([^=:]+?)(?:=(\w+))?:(\w+)[>\]]?$/.exec(shape)
    const name = word.replace(/^--/, '')
    return { word, field: field ?? camelCase(name), kind, isRequired: shape.startsWith('<') }
  })
  return {
    args: all.filter(({ word }) => !word.startsWith('--')),
    options: new Map(all.filter(({ word }) => word.startsWith('--')).map((option) => [option.word, option])),
  }
}

function parsed(given) {
  const named = {}
  const placed = {}
  const plain = []
  let output = 'text'
  const rest = [...given]
  while (rest.length > 0) {
    const word = rest.shift()
    if (word === '--') {
      plain.push(...rest.splice(0))
    } else if (word === '--help' || word === '-h') {
      return { input: {}, output: 'help' }
    } else if (word === '--json') {
      output = 'json'
    } else if (word === '--no-interactive') {
      // Nothing is asked here.
    } else if (word.startsWith('-') && word !== '-') {
      const equals = word.indexOf('=')
      const name = equals === -1 ? word : word.slice(0, equals)
      const option = options.get(name)
      if (option === undefined) throw new Error(`Unknown option ${name}. ${allowed()}`)
      if (option.kind === 'flag') {
        if (equals !== -1) throw new Error(`${name} takes no value.`)
        named[option.field] = true
      } else {
        const value = equals === -1 ? rest.shift() : word.slice(equals + 1)
        if (value === undefined) throw new Error(`${name} needs a value.`)
        named[option.field] = KINDS[option.kind](value, name, named[option.field])
      }
    } else {
      plain.push(word)
    }
  }
  for (const { word, field, kind, isRequired } of args) {
    const value = plain.shift()
    if (value !== undefined) placed[field] = KINDS[kind](value, `<${word}>`)
    else if (isRequired) throw new Error(`<${word}> is missing. ${allowed()}`)
  }
  if (plain.length > 0) throw new Error(`${JSON.stringify(plain[0])} is a word too many. ${allowed()}`)
  return { input: { ...placed, ...named }, output }
}

function idOf(input) {
  return workflowId.replace(/:<(\w+)>/, (_, field) => (input[field] === undefined ? '' : `:${input[field]}`))
}

function allowed() {
  const words = [
    ...args.map(({ word, isRequired }) => (isRequired ? `<${word}>` : `[${word}]`)),
    ...[...options.values()].map(({ word, kind }) => (kind === 'flag' ? word : `${word} <${kind}>`)),
    '--json',
  ]
  return `Allowed: ${words.join(' ')}`
}

function help() {
  return `${command}: runs integrations:${command} on a worker. ${allowed()}. docs/commands.md has more.`
}

function camelCase(name) {
  return name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase())
}

function print(...lines) {
  process.stdout.write(`${lines.join('\n')}\n`)
}

/** With --json a failure is a document, on stdout. */
function refuse(message) {
  if (wantsJson()) print(JSON.stringify({ error: { code: 'usage', message } }))
  else process.stderr.write(`${message}\n`)
  process.exitCode = 1
}

/** Known before the words are parsed: a word too many is a failure like any other. */
function wantsJson() {
  return words.slice(0, words.includes('--') ? words.indexOf('--') : undefined).includes('--json')
}
