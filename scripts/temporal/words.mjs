/**
 * The words of a command line as the input of its workflow. A shape says what a word may be:
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
 */
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

/** They change how the result is shown, and are no field of an input. */
const COMMON = ['--help', '-h', '--json', '--no-interactive']

/** Known before the words are parsed: a word too many is a failure like any other. */
export function wantsJson(words) {
  return words.slice(0, words.includes('--') ? words.indexOf('--') : undefined).includes('--json')
}

/**
 * @returns the input; null where help is asked for
 * @throws Error with a line for words that don't fit
 */
export function inputOf(shapes, words) {
  const { args, options } = declared(shapes)
  const named = {}
  const plain = []
  const rest = [...words]
  while (rest.length > 0) {
    const word = rest.shift()
    if (word === '--') plain.push(...rest.splice(0))
    else if (!word.startsWith('-') || word === '-') plain.push(word)
    else {
      const equals = word.indexOf('=')
      const name = equals === -1 ? word : word.slice(0, equals)
      const option = options.get(name)
      if (option === undefined && !COMMON.includes(name)) throw new Error(`Unknown option ${name}. ${allowed(shapes)}`)
      if (option === undefined || option.kind === 'flag') {
        if (equals !== -1) throw new Error(`${name} takes no value.`)
        if (name === '--help' || name === '-h') return null
        if (option !== undefined) named[option.field] = true
      } else {
        const value = equals === -1 ? rest.shift() : word.slice(equals + 1)
        if (value === undefined) throw new Error(`${name} needs a value.`)
        named[option.field] = KINDS[option.kind](value, name, named[option.field])
      }
    }
  }
  return { ...placed(shapes, args, plain), ...named }
}

function placed(shapes, args, plain) {
  const input = {}
  for (const { word, field, kind, isRequired } of args) {
    const value = plain.shift()
    if (value !== undefined) input[field] = KINDS[kind](value, `<${word}>`)
    else if (isRequired) throw new Error(`<${word}> is missing. ${allowed(shapes)}`)
  }
  if (plain.length > 0) throw new Error(`${JSON.stringify(plain[0])} is a word too many. ${allowed(shapes)}`)
  return input
}

function declared(shapes) {
  const all = shapes.map((shape) => {
    const [, word, field, kind] = /^[<[]?([^=:]+?)(?:=(\w+))?:(\w+)[>\]]?$/.exec(shape)
    return { word, field: field ?? camelCase(word.replace(/^--/, '')), kind, isRequired: shape.startsWith('<') }
  })
  return {
    args: all.filter(({ word }) => !word.startsWith('--')),
    options: new Map(all.filter(({ word }) => word.startsWith('--')).map((option) => [option.word, option])),
  }
}

/** In one line. */
export function allowed(shapes) {
  const { args, options } = declared(shapes)
  const words = [
    ...args.map(({ word, isRequired }) => (isRequired ? `<${word}>` : `[${word}]`)),
    ...[...options.values()].map(({ word, kind }) => (kind === 'flag' ? word : `${word} <${kind}>`)),
    '--json',
  ]
  return `Allowed: ${words.join(' ')}`
}

function camelCase(name) {
  return name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase())
}
