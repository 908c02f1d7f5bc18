/** Text as one word of a POSIX shell (IEEE Std 1003.1, Shell Command Language, 2.2.2 "Single-Quotes"). */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
