// Without the theme's fonts: those of the reader's system, so that a page is there at once.
import theme from 'vitepress/theme-without-fonts'
import './contrast.css'

export default theme
