/**
 * Completion scripts out of commander's own tree: all words stand in the script, so that a Tab starts no process.
 *
 * bash: Programmable Completion in its manual; zsh: zshcompsys(1); fish: complete(1).
 */
import type { Command, Option } from 'commander'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

interface Completed {
  readonly name: string
  readonly summary: string
  readonly options: readonly CompletedOption[]
  /** What the first argument may be, where that is known. */
  readonly choices: readonly string[]
}

interface CompletedOption {
  readonly flag: string
  readonly summary: string
  readonly takesValue: boolean
  readonly choices: readonly string[]
}

export function completionScript(program: Command, shell: Shell): string {
  const help = program.createHelp()
  const commands = help
    .visibleCommands(program)
    .filter((command) => command.name() !== 'help')
    .map((command): Completed => {
      const options = help.visibleOptions(command).filter((option) => option.long !== undefined)
      return {
        name: command.name(),
        summary: command.description(),
        options: options.map(completedOption),
        choices: command.registeredArguments[0]?.argChoices ?? [],
      }
    })
  return { bash, zsh, fish }[shell](program.name(), commands)
}

function completedOption(option: Option): CompletedOption {
  return {
    flag: option.long ?? '',
    summary: option.description,
    takesValue: option.required,
    choices: option.argChoices ?? [],
  }
}

/**
 * The command is the first word that is no option. A value without choices completes to nothing, not to files. Bash splits
 * words at colons, too, and `integrations:sync` has one: the line is split at blanks only.
 */
function bash(program: string, commands: readonly Completed[]): string {
  const cases = commands.flatMap(({ name, options, choices }) => [
    `    ${name}|integrations:${name})`,
    '      case "$previous" in',
    ...options
      .filter(({ takesValue }) => takesValue)
      .map(({ flag, choices: values }) => `        ${flag}) words="${values.join(' ')}"; value=1 ;;`),
    '      esac',
    `      [ -n "$value" ] || words="${[...choices, ...options.map(({ flag }) => flag)].join(' ')}" ;;`,
  ])
  return `# bash completion of \`${program}\`: source <(${program} completion bash)
_${program}_complete() {
  local line="\${COMP_LINE:0:$COMP_POINT}" current previous="" command="" words="" value="" index last
  local -a typed
  read -ra typed <<<"$line"
  [[ "$line" == *[[:space:]] ]] && typed+=("")
  last=$((\${#typed[@]} - 1))
  current="\${typed[last]}"
  [ "$last" -gt 0 ] && previous="\${typed[last - 1]}"
  for ((index = 1; index < last; index++)); do
    if [[ "\${typed[index]}" != -* ]]; then command="\${typed[index]}"; break; fi
  done
  case "$command" in
    "") words="${[...commands.map(({ name }) => name), '--help', '--version'].join(' ')}" ;;
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _${program}_complete ${program}`
}

function zsh(program: string, commands: readonly Completed[]): string {
  const cases = commands.flatMap(({ name, options, choices }) => [
    `    ${name}|integrations:${name})`,
    '      _arguments \\',
    ...options.map(({ flag, summary, takesValue, choices: values }) => {
      const value = !takesValue ? '' : values.length > 0 ? `:value:(${values.join(' ')})` : ':value: '
      return `        ${quoted(`*${flag}[${inBrackets(summary)}]${value}`)} \\`
    }),
    `        ${quoted(choices.length > 0 ? `1:argument:(${choices.join(' ')})` : '*:argument: ')} ;;`,
  ])
  return [
    `#compdef ${program}`,
    `# zsh completion of \`${program}\`: source <(${program} completion zsh), or a file _${program} in $fpath`,
    `_${program}() {`,
    '  local -a commands',
    '  commands=(',
    ...commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`),
    '  )',
    '  if (( CURRENT == 2 )); then',
    '    _describe command commands',
    '    return',
    '  fi',
    '  local command=$words[2]',
    '  shift words; (( CURRENT-- ))',
    '  case "$command" in',
    ...cases,
    '  esac',
    '}',
    // Autoloaded from $fpath it is called at once; sourced it is registered.
    `if [ "$funcstack[1]" = "_${program}" ]; then _${program} "$@"; else compdef _${program} ${program}; fi`,
  ].join('\n')
}

function fish(program: string, commands: readonly Completed[]): string {
  const line = (condition: string, rest: string): string => `complete -c ${program} -n ${quoted(condition)} ${rest}`
  return [
    `# fish completion of \`${program}\`: ${program} completion fish > ~/.config/fish/completions/${program}.fish`,
    `complete -c ${program} -f`,
    ...commands.flatMap(({ name, summary, options, choices }) => {
      const inside = `__fish_seen_subcommand_from ${name} integrations:${name}`
      return [
        line('__fish_use_subcommand', `-a ${name} -d ${quoted(summary)}`),
        ...(choices.length > 0 ? [line(inside, `-a ${quoted(choices.join(' '))}`)] : []),
        ...options.map((option) => {
          const value = option.takesValue
            ? ` -x${option.choices.length > 0 ? ` -a ${quoted(option.choices.join(' '))}` : ''}`
            : ''
          return line(inside, `-l ${option.flag.slice(2)}${value} -d ${quoted(option.summary)}`)
        }),
      ]
    }),
  ].join('\n')
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
/** What ends a description inside zsh's brackets. */
const inBrackets = (text: string): string => text.replace(/[[\]:\\]/g, '\\$&')
