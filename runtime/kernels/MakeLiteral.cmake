# Writes the text of INPUT to OUTPUT as a string literal of C++.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "R\"ptx(${text})ptx\"\n")
