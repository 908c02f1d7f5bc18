/** The log lines that the sources write, as the sources say them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const SOURCES = fileURLToPath(new URL('../../src', import.meta.url))
const LEVELS: ReadonlySet<string> = new Set(['debug', 'info', 'warn', 'error'])

export interface LogLine {
  /** File and line. */
  readonly at: string
  /** Written by workflow code, which the SDK hands on: message first, and the worker adds what a workflow does not know. */
  readonly isOfWorkflow: boolean
  readonly level: string
  /** What `event` is written as: a text, or the expression that gives it; null: the line has none. */
  readonly event: string | null
  /** The other fields that are written by name. */
  readonly fields: readonly string[]
}

export function logLines(): LogLine[] {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'))
  return files.sort().flatMap((path) => linesOf(path, readFileSync(join(SOURCES, path), 'utf8')))
}

export function linesOf(path: string, text: string): LogLine[] {
  const isOfWorkflow = path.startsWith('workflows/')
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const declared = new Map<string, ts.Expression[]>()
  const lines: LogLine[] = []
  const declare = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer !== undefined)
      declared.set(node.name.text, [...(declared.get(node.name.text) ?? []), node.initializer])
    // `this.#logger = boundLogger(…)`
    if (
      ts.isBinaryExpression(node) &&
      node.operatorToken.kind === ts.SyntaxKind.EqualsToken &&
      ts.isPropertyAccessExpression(node.left)
    )
      declared.set(node.left.name.text, [...(declared.get(node.left.name.text) ?? []), node.right])
    ts.forEachChild(node, declare)
  }
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      const found = isOfWorkflow ? loggedByWorkflow(node) : loggedBy(node)
      if (found !== null) {
        const fields = new Map([...boundFields(found.logger, declared), ...fieldsOf(found.fields, declared)])
        // A logger in front of another one hands on what it was given.
        if (ts.isIdentifier(found.fields) && !declared.has(found.fields.text)) return
        const { line } = source.getLineAndCharacterOfPosition(node.getStart())
        const event = fields.get('event') ?? null
        fields.delete('event')
        lines.push({
          at: `src/${path}:${line + 1}`,
          isOfWorkflow,
          level: found.level,
          event,
          fields: [...fields.keys()],
        })
      }
    }
    ts.forEachChild(node, visit)
  }
  declare(source)
  visit(source)
  return lines
}

interface Logged {
  readonly level: string
  readonly logger: ts.Expression
  readonly fields: ts.Expression
}

/** `logger.warn(fields, message)`, `this.#logger.warn(…)`, `integrationLogger(…).warn(…)`, and `warnings.warn(subject, () => fields, message)`. */
function loggedBy(call: ts.CallExpression): Logged | null {
  const { expression: callee } = call
  if (!ts.isPropertyAccessExpression(callee) || !LEVELS.has(callee.name.text)) return null
  const receiver = callee.expression.getText()
  const [first, second] = call.arguments
  if (/warnings$/.test(receiver) && second !== undefined && ts.isArrowFunction(second) && !ts.isBlock(second.body))
    return { level: callee.name.text, logger: callee.expression, fields: bare(second.body) }
  // A logger that counts repeats or binds fields hands on its caller's line.
  const isHandedOn = first !== undefined && /\.\.\.fields\(\)|\.\.\.fields, \.\.\.own/.test(first.getText())
  const isLogger =
    /(^|[.#])logger$/i.test(receiver) || /^(\(await )?(integration|bound|run|sync)Logger\(/.test(receiver)
  if (!isLogger || first === undefined || isHandedOn) return null
  return { level: callee.name.text, logger: callee.expression, fields: bare(first) }
}

/** `log.warn(message, fields)` of `@temporalio/workflow`: https://typescript.temporal.io/api/interfaces/common.Logger */
function loggedByWorkflow(call: ts.CallExpression): Logged | null {
  const { expression: callee } = call
  if (!ts.isPropertyAccessExpression(callee) || !LEVELS.has(callee.name.text)) return null
  if (callee.expression.getText() !== 'log') return null
  return { level: callee.name.text, logger: callee.expression, fields: bare(call.arguments[1] ?? callee) }
}

/** What the makers of bound loggers add. */
const BOUND: Readonly<Record<string, readonly string[]>> = {
  integrationLogger: ['integration', 'provider'],
  syncLogger: ['integration', 'provider'],
  runLogger: ['integration', 'provider', 'sync_log'],
  // A method that gives the logger of a row's integration.
  '#loggerOf': ['integration', 'provider'],
}

/** The fields that a maker of bound loggers adds, called here or declared before. */
function boundFields(given: ts.Expression, declared: ReadonlyMap<string, ts.Expression[]>): Map<string, string> {
  const logger = bare(given)
  if (ts.isIdentifier(logger) || (ts.isPropertyAccessExpression(logger) && /logger$/i.test(logger.name.text))) {
    const name = ts.isIdentifier(logger) ? logger.text : logger.name.text
    return new Map((declared.get(name) ?? []).flatMap((one) => [...boundFields(one, declared)]))
  }
  if (!ts.isCallExpression(logger)) return new Map()
  const maker = ts.isPropertyAccessExpression(logger.expression)
    ? logger.expression.name.text
    : logger.expression.getText()
  const [inner, fields] = logger.arguments
  if (maker === 'boundLogger' && inner !== undefined && fields !== undefined)
    return new Map([...boundFields(inner, declared), ...fieldsOf(bare(fields), declared)])
  return new Map((BOUND[maker] ?? []).map((name) => [name, name]))
}

function fieldsOf(given: ts.Expression, declared: ReadonlyMap<string, ts.Expression[]>): Map<string, string> {
  const fields = new Map<string, string>()
  const take = (from: ts.Expression): void => {
    // `faultOf('process.uncaught_exception', error)`: fields that a function makes for the event that it is given.
    const [named] = ts.isCallExpression(from) ? from.arguments : []
    if (named !== undefined && ts.isStringLiteral(named)) fields.set('event', named.text)
    if (ts.isIdentifier(from)) for (const initializer of declared.get(from.text) ?? []) take(bare(initializer))
    if (ts.isConditionalExpression(from)) for (const side of [from.whenTrue, from.whenFalse]) take(bare(side))
    if (!ts.isObjectLiteralExpression(from)) return
    for (const property of from.properties)
      if (ts.isSpreadAssignment(property)) take(bare(property.expression))
      else if (property.name !== undefined) fields.set(property.name.getText(), readValue(property))
  }
  take(given)
  return fields
}

function readValue(property: ts.ObjectLiteralElementLike): string {
  if (!ts.isPropertyAssignment(property)) return property.name?.getText() ?? ''
  const { initializer } = property
  return ts.isStringLiteral(initializer) ? initializer.text : initializer.getText()
}

function bare(expression: ts.Expression): ts.Expression {
  return ts.isParenthesizedExpression(expression) || ts.isAsExpression(expression) || ts.isAwaitExpression(expression)
    ? bare(expression.expression)
    : expression
}
