/** The width of a page's lines: test/house/pages.test.ts. */
const WIDTH = 120

/** Breaks the long lines of a Markdown page between two words: paragraphs and items of lists, not rows and code. */
export function wrapped(page: string): string {
  let isCode = false
  return page
    .split('\n')
    .flatMap((line) => {
      if (line.startsWith('```')) isCode = !isCode
      return isCode || line.length <= WIDTH || /^(\||<!--|```)/.test(line) ? [line] : broken(line)
    })
    .join('\n')
}

function broken(line: string): string[] {
  const indent = /^- /.test(line) ? '  ' : ''
  const lines: string[] = []
  let current = ''
  for (const word of line.split(' ')) {
    // At the beginning of a line these would be an item of a list, a heading, a quotation, a row or a tag.
    const mayBegin = !/^([-+*#<>|]|\d+[.)]$)/.test(word)
    if (current !== '' && mayBegin && current.length + 1 + word.length > WIDTH) {
      lines.push(current)
      current = indent + word
    } else current = current === '' ? word : `${current} ${word}`
  }
  return [...lines, current]
}
