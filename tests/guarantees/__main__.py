from tests.guarantees.page import main

main()
