"""The face that the pages for people share: a layout, parts of it, a style sheet, and the headers they are sent with."""
